/* guarded.c - core.c with the restart guard on, below servers that say anything of themselves:
 * INFO, TIME, markers, lists of servers.
 */
#define GUARDED 1
#include "core.c"
