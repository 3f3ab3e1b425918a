/* seal.h - inside the core: servers that come back sealed from a planned restart.
 *
 * A majority of the others has noted the nonce of a seal before the server got it and
 * stopped to vote. If it comes back, in another life, with the seal in its memory, it has
 * forgotten nothing, and may vote at once: when a majority of the others notes beside the
 * nonce that it was for this life. A copy of the sealed memory that is started later
 * finds the nonce spent, and goes through a quarantine.
 */
#ifndef SEAL_H
#define SEAL_H

#include "core/state.h"

/* Node i, in another life, has a seal of the one before. 1: it may be opened still; 0: the
 * others will not have it so, or cannot be asked. */
int seal_waits(struct core *core, int i, int64_t now_ms);

/* Does what is due for such a node: asks the others, and admits it when a majority of them
 * has opened the seal. As seal_waits(). */
int seal_visit(struct core *core, int i, int64_t now_ms);

/* Node k answered such a question, which *text begins with then, and is set behind; whose
 * seal it was, or -1: it is another answer. */
int seal_told(struct core *core, int k, const char **text, size_t *len);

#endif
