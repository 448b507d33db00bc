/* What this process may use of its machine. Layer: pipeline. Local; a fact that cannot be read
 * is reported as unknown, never guessed. Linux: /proc, control groups of either version; the
 * variables of a Slurm job, whose limits hold even where no control group enforces them. */
#ifndef LS_PIPELINE_MACHINE_H
#define LS_PIPELINE_MACHINE_H

#include <stdint.h>

enum { LS_CPU_WORDS = 16 }; /* 1024 CPUs */

/* Bytes that can still be taken: what the kernel calls available, less where a control group's
 * limit leaves less or Slurm gave this job less on this host. 0: unknown. */
uint64_t ls_machine_memory(void);

/* Bytes of this process in memory now, and at most so far, pages of files and shared memory
 * included; 0: unknown. */
struct ls_machine_use {
    uint64_t now_bytes, peak_bytes;
};
struct ls_machine_use ls_machine_use(void);

/* CPUs of the affinity mask, one bit each; returns how many. */
int ls_machine_cpus(uint64_t mask[LS_CPU_WORDS]);

/* Cores' worth of time that a control group allows, rounded up, or the CPUs that Slurm gave
 * this job on this host, if that is less; 0: no limit. For all of the job's ranks here
 * together. */
int ls_machine_cpu_quota(void);

/* CPUs of this host that the job could use if nothing were bound; 0: unknown. */
int ls_machine_host_cpus(void);

#endif
