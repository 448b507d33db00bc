/* The known name that lies nearest to a mistyped one. Layer: base. Local, cannot fail. */
#ifndef LS_BASE_NEAREST_H
#define LS_BASE_NEAREST_H

enum { LS_NEAREST_MAX = 64 }; /* letters beyond these are not compared */

/* Edits (insert, delete, replace, swap two neighbours) that turn a into b. */
int ls_edit_distance(const char *a, const char *b);

#endif
