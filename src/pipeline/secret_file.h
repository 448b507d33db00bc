/* Where a job secret comes from and goes to: key files, descriptors, and the hand-over of an
 * ephemeral secret between the ranks of one host.
 *
 * Layer: pipeline. Local. Nothing of a secret stays in a buffer, and no message quotes any of
 * it. Failures: LS_E_IO for what the system refuses, LS_E_REFUSED for a file that others could
 * have read or written, LS_E_FORMAT for its bytes. */
#ifndef LS_PIPELINE_SECRET_FILE_H
#define LS_PIPELINE_SECRET_FILE_H

#include "wire/card.h"

/* A regular file of this user's that nobody else may read or write (mode 0600 or 0400). */
ls_status ls_secret_read_file(struct ls_secret **out, const char *path, struct ls_err *err);
/* Reads an inherited descriptor, of a file or a pipe, to its end, and closes it; LS_E_IO when
 * that takes over 10 s. To be called before anything else opens descriptors. */
ls_status ls_secret_read_fd(struct ls_secret **out, int fd, struct ls_err *err);

/* A new key file, mode 0600; a file that is there is never touched (LS_E_IO). `about` becomes
 * its first comment line. */
ls_status ls_secret_write_file(const struct ls_secret *secret, const char *path,
                               const char *about, struct ls_err *err);

/* Puts a secret into shared memory of this host, readable by this user only, under a name that
 * nobody can guess. withdraw removes it; what was read stays. */
ls_status ls_secret_publish(const struct ls_secret *secret, uint8_t name[LS_SECRET_NAME],
                            struct ls_err *err);
ls_status ls_secret_fetch(struct ls_secret **out, const uint8_t name[LS_SECRET_NAME],
                          struct ls_err *err);
void ls_secret_withdraw(const uint8_t name[LS_SECRET_NAME]);

#endif
