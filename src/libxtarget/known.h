/* Calls that a kernel has served before, which are launched again without looking for a form. */
#ifndef XTARGET_KNOWN_H
#define XTARGET_KNOWN_H

#include "kernel.h"

/* Launch a call as one before it was that differs from it in the addresses only. Gives 0 where none
 * is known, or where something is to be said: the call is then looked at as a new one. */
int xt_known_call(xtarget_kernel *kernel, void *stream, const xtarget_argument *arguments,
                  size_t argument_count, const xtarget_tensor *outputs, size_t output_count,
                  int *status);
/* Remember a call that was served by one launch. */
void xt_known_keep(xtarget_kernel *kernel, const xtarget_argument *arguments,
                   const xtarget_tensor *outputs, const struct xt_given *given,
                   const struct xt_record *record, const struct xt_form *form,
                   const struct xt_launched *launched);
void xt_known_drop(xtarget_kernel *kernel);

#endif
