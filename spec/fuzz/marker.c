/* marker.c - any text as a server's marker, or as the record of a list: it is read only if
 * it could have been written, and a marker is replaced only if it is none of another
 * version.
 */
#include <string.h>

#include "core/marker.h"
#include "fuzz.h"

static void read_record(const char *data, size_t size)
{
    static struct view v;
    char text[VIEW_MAX];
    if (view_parse(data, size, &v) < 0)
        return;
    MUST(v.list.n > 0 && v.list.n <= RL_MAX_NODES && v.was_len <= VIEW_WAS);
    MUST((v.id.epoch & 1) == (v.old.n > 0));
    MUST(view_write(&v, text) == (int)size && !memcmp(text, data, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_record((const char *)data, size);
    struct marker m;
    char text[MARKER_MAX];
    int version = 0;
    switch (marker_parse((const char *)data, size, &m, &version)) {
    case MARKER_NONE:
        MUST(size == 0);
        break;
    case MARKER_FOREIGN:
        MUST(size > 0 && (version < 0 || version == MARKER_VERSION));
        break;
    case MARKER_UNKNOWN:
        MUST(size > MARKER_HEX + 3 && data[MARKER_HEX + 1] == 'v' && version >= 0 &&
             version < 1000 && version != MARKER_VERSION);
        break;
    case MARKER_READ:
        MUST(version == MARKER_VERSION && size <= MARKER_TEXT && m.max_lease_ms > 0);
        MUST(strlen(m.inc) == MARKER_HEX && strlen(m.view.hash) == VIEW_HEX);
        marker_write(&m, text);
        MUST(strlen(text) == size && !memcmp(text, data, size));
        break;
    default:
        MUST(0);
    }
    return 0;
}
