#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "xtarget_kernels.h"

/* A driver's functions stand in one table, XT_FUNCTIONS(X): each one's result, its symbol, our name
   and its parameters. */
#define XT_MEMBER(result, symbol, name, parameters) result(*name) parameters;
#define XT_SYMBOL(result, symbol, name, parameters) {#symbol, (void **)&xt_driver.name, 1},

struct xt_symbol {
  const char *name;
  void **place;
  int needed;
};
