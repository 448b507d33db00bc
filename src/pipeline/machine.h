/* What this process may use of its machine. Layer: pipeline. Local; a fact that cannot be read
 * is reported as unknown, never guessed. Linux: /proc, control groups of either version. */
#ifndef LS_PIPELINE_MACHINE_H
#define LS_PIPELINE_MACHINE_H

#include <stdint.h>

enum { LS_CPU_WORDS = 16 }; /* 1024 CPUs */

/* Bytes that can still be taken: what the kernel calls available, less where a control group's
 * limit leaves less. 0: unknown. */
uint64_t ls_machine_memory(void);

/* CPUs of the affinity mask, one bit each; returns how many. */
int ls_machine_cpus(uint64_t mask[LS_CPU_WORDS]);

/* Cores' worth of time that a control group allows, rounded up; 0: no limit. */
int ls_machine_cpu_quota(void);

#endif
