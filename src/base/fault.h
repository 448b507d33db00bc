/* Deliberate failures of a process, for the fault matrix. Layer: base.
 *
 * In a normal build LS_FAULT is the constant 0 and leaves no code behind. In a test build
 * (meson -Dmutants=true) the environment variable LOCKSTEP_FAULT=kind:rank:phase makes that
 * rank do one thing when it first comes to that phase. Kinds: kill and stop (by signal), abort,
 * exit (with 0), disk (every file is full), malloc (ls_alloc gets no more), error
 * (LS_E_COMPUTE, where it can), mark (make the file LOCKSTEP_FAULT_FILE), cut (make it, and
 * wait until the test has cut the network and taken it away). */
#ifndef LS_BASE_FAULT_H
#define LS_BASE_FAULT_H

enum ls_fault_phase {
    LS_FAULT_START,    /* before MPI is started */
    LS_FAULT_VOTE,     /* before the first vote */
    LS_FAULT_LOAD,     /* before the weights are loaded */
    LS_FAULT_PREFILL,  /* in the first step, before it is computed */
    LS_FAULT_DECODE,   /* in the first step with decoding rows only */
    LS_FAULT_GATHER,   /* rank 0: a result has come; others: a step is computed, not sent on */
    LS_FAULT_SHUTDOWN, /* the run has ended, the rank has not */
    LS_N_FAULT_PHASES
};

#ifdef LS_MUTANTS
/* Nonzero when this rank is to fail here by a status of its own; does the other kinds itself.
 * An unknown kind or phase ends the program. */
int ls_fault_at(enum ls_fault_phase phase, int rank);
/* Nonzero when allocations are to fail. */
int ls_fault_of_memory(void);
#define LS_FAULT(phase, rank) ls_fault_at(LS_FAULT_##phase, rank)
#define LS_FAULT_MEMORY       ls_fault_of_memory()
#else
#define LS_FAULT(phase, rank) 0
#define LS_FAULT_MEMORY       0
#endif

#endif
