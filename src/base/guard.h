/* Checks that the tests can switch off, one at a time. Layer: base.
 *
 * In a normal build LS_GUARD is the constant 1 and leaves no code behind. In a test build
 * (meson -Dmutants=true) the environment variable LOCKSTEP_GUARD_OFF names one check that is
 * then left out, and the test that watches it must fail. mpi_tests/unit/guards.py has the list.
 */
#ifndef LS_BASE_GUARD_H
#define LS_BASE_GUARD_H

#ifdef LS_MUTANTS
/* 0 when `name` is the check that is switched off. */
int ls_guard_is_on(const char *name);
#define LS_GUARD(name) ls_guard_is_on(name)
#else
#define LS_GUARD(name) 1
#endif

#endif
