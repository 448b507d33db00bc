/* Opening what may be a FIFO, whose other end open() and read() would wait for even behind a
 * signal that is caught (handlers restart calls). Layer: base. Local. */
#ifndef LS_BASE_OPEN_H
#define LS_BASE_OPEN_H

/* A descriptor, or -1 with errno. A FIFO is waited for until somebody writes; a signal ends the
 * wait: EINTR. */
int ls_open_read(const char *path);

/* The same with open()'s flags for writing, new files with mode 0666. A FIFO that nobody reads
 * is ENXIO. */
int ls_open_write(const char *path, int flags);

/* 0 when read() would not wait, at an end or an error too; -1 with EINTR after a signal. */
int ls_wait_to_read(int fd);

#endif
