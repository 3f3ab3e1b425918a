/* marker.c - any text as a server's marker: it is read only if it could have been written,
 * and replaced only if it is none of another version.
 */
#include <string.h>

#include "core/base/marker.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct marker m;
    char text[MARKER_MAX];
    int version = 0;
    switch (marker_parse((const char *)data, size, &m, &version)) {
    case MARKER_NONE:
        MUST(size == 0);
        break;
    case MARKER_FOREIGN:
        MUST(size > 0 && (version < 0 || version == RL_MARKER_VERSION));
        break;
    case MARKER_UNKNOWN:
        MUST(size > MARKER_HEX + 3 && data[MARKER_HEX + 1] == 'v' && version >= 0 &&
             version < 1000 && version != RL_MARKER_VERSION);
        break;
    case MARKER_READ:
        MUST(version == RL_MARKER_VERSION && size <= MARKER_TEXT && m.max_lease_ms > 0);
        MUST(strlen(m.inc) == MARKER_HEX && m.cluster[0]);
        marker_write(&m, text);
        MUST(strlen(text) <= size && !memcmp(text, data, strlen(text)));
        MUST((strlen(text) == size) == (m.state == MARKER_ADMITTED));
        break;
    default:
        MUST(0);
    }
    return 0;
}
