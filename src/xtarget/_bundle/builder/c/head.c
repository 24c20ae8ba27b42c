#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "xtarget_kernels.h"

struct xt_symbol {
  const char *name;
  void **place;
  int needed;
};
