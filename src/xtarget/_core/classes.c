/* Classes of calls: entries whose programs say which sizes they serve, and with which numbers. */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

struct class {
  int count, asked;
  struct entry *entries[MOST_OF_CLASS];
};

/* --------------------------------------------------------------------------------- programs */

static void program_clear(struct xt_program *program) {
  free(program->constants);
  free(program->steps);
}

/* From `IntegerProgram.flat`: 1, or 0 where it is none. */
static int read_program(struct xt_program *program, PyObject *flat) {
  PyObject *constants, *steps, *results;
  memset(program, 0, sizeof *program);
  if (!PyArg_ParseTuple(flat, "iO!O!O!", &program->symbol_count, &PyTuple_Type, &constants,
                        &PyTuple_Type, &steps, &PyTuple_Type, &results))
    return 0;
  program->constant_count = (int)PyTuple_Size(constants);
  program->step_count = (int)PyTuple_Size(steps);
  program->result_count = (int)PyTuple_Size(results);
  if (program->result_count > XT_MOST_RESULTS) return 0;
  program->constants = calloc((size_t)program->constant_count + 1, sizeof *program->constants);
  program->steps = calloc((size_t)program->step_count + 1, sizeof *program->steps);
  if (!program->constants || !program->steps) return 0;
  for (int i = 0; i < program->constant_count; i++)
    program->constants[i] = PyLong_AsLongLong(PyTuple_GetItem(constants, i));
  for (int i = 0; i < program->step_count && !PyErr_Occurred(); i++) {
    struct xt_step *step = &program->steps[i];
    if (!PyArg_ParseTuple(PyTuple_GetItem(steps, i), "HHH", &step->operation, &step->a, &step->b))
      return 0;
  }
  for (int i = 0; i < program->result_count && !PyErr_Occurred(); i++)
    program->results[i] = (uint16_t)PyLong_AsUnsignedLong(PyTuple_GetItem(results, i));
  return !PyErr_Occurred() && xt_program_is_sound(program);
}

PyObject *evaluate(PyObject *module, PyObject *args) {
  PyObject *flat, *symbols;
  struct xt_program program = {0};
  int64_t given[XT_MOST_REGISTERS], results[XT_MOST_RESULTS];
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &flat, &PyTuple_Type, &symbols)) return NULL;
  int fits = read_program(&program, flat) && PyTuple_Size(symbols) == program.symbol_count;
  for (int i = 0; fits && i < program.symbol_count; i++)
    given[i] = PyLong_AsLongLong(PyTuple_GetItem(symbols, i));
  enum xt_outcome outcome = XT_UNDECIDED;
  if (fits && !PyErr_Occurred()) outcome = xt_evaluate(&program, given, results);
  int count = program.result_count;
  program_clear(&program);
  if (PyErr_Occurred()) return NULL;
  if (!fits) {
    PyErr_SetString(PyExc_ValueError, "this is no program of so many symbols");
    return NULL;
  }
  if (outcome == XT_FAILS) Py_RETURN_NONE;
  if (outcome == XT_UNDECIDED) Py_RETURN_FALSE;
  PyObject *found = PyTuple_New(count);
  for (int i = 0; found && i < count; i++)
    PyTuple_SetItem(found, i, PyLong_FromLongLong(results[i]));
  return found;
}

/* ---------------------------------------------------------------------------------- entries */

void sizing_drop(struct sizing *sizing) {
  if (!sizing) return;
  program_clear(&sizing->program);
  free(sizing);
}

static enum xt_outcome numbers_of(const struct entry *entry, const struct xt_call *call,
                                  int64_t *numbers) {
  const struct xt_program *program = &entry->sizing->program;
  if (program->symbol_count != call->size_count) return XT_FAILS;
  return xt_evaluate(program, call->sizes, numbers);
}

/* Whether no launch of the entry takes a number that its program does not give. */
static int takes_what_is_given(const struct entry *entry, int values) {
  const struct sizing *sizing = entry->sizing;
  int sizes = sizing->program.result_count - sizes_at(entry);
  if (sizes < 0) return 0;
  for (int i = 0; i < sizing->place_count; i++)
    if (sizing->places[i] >= values + sizes) return 0;
  return !entry->native || native_takes_what_is_given(entry->native, values, sizes);
}

/* The numbers of dimensions of the new outputs: 1, or 0 where they are none. */
static int read_dimensions(struct entry *entry, PyObject *dimensions) {
  if (PyTuple_Size(dimensions) != entry->output_count) return 0;
  for (int i = 0; i < entry->output_count; i++) {
    long count = PyLong_AsLong(PyTuple_GetItem(dimensions, i));
    if (count < 0 || count > XT_MOST_DIMENSIONS) return 0;
    entry->outputs[i].dimensions = (int)count;
    entry->sizing->dimensions += (int)count;
  }
  return 1;
}

struct entry *entry_of_class(const struct reading *reading, PyObject *offered) {
  PyObject *described, *places, *flat, *sizes, *again, *dimensions;
  if (!PyArg_ParseTuple(offered, "O!O!O!OO!O", &PyTuple_Type, &described, &PyTuple_Type, &flat,
                        &PyTuple_Type, &dimensions, &places, &PyTuple_Type, &sizes, &again))
    return NULL;
  int whole = places == Py_None;
  const struct xt_call *call = &reading->call;
  int64_t numbers[XT_MOST_RESULTS];
  struct entry *entry = NULL;
  /* Python may have read other sizes: strides of dimensions of length 1, for one */
  if (PyTuple_Size(sizes) != call->size_count) return NULL;
  for (int i = 0; i < call->size_count; i++)
    if (PyLong_AsLongLong(PyTuple_GetItem(sizes, i)) != call->sizes[i]) return NULL;
  struct sizing *sizing = calloc(1, sizeof *sizing);
  if (!sizing) return NULL;
  Py_ssize_t count = whole ? 0 : PyTuple_Size(places);
  if (!read_program(&sizing->program, flat) || count < 0 || count > XT_MOST_PARAMETERS) {
    sizing_drop(sizing);
    return NULL;
  }
  sizing->whole = whole;
  sizing->place_count = (int)count;
  for (int i = 0; i < sizing->place_count; i++)
    sizing->places[i] = (uint8_t)PyLong_AsUnsignedLong(PyTuple_GetItem(places, i));
  entry = entry_new(reading, described);
  if (!entry) {
    sizing_drop(sizing);
    return NULL;
  }
  entry->sizing = sizing;
  entry->again = Py_NewRef(again);
  int values = (int)(reading->arg_count + out_count(reading)) + entry->output_count;
  if (!PyErr_Occurred() && read_dimensions(entry, dimensions) && takes_what_is_given(entry, values) &&
      numbers_of(entry, call, numbers) == XT_HOLDS)
    return entry;
  entry_drop(entry);
  return NULL;
}

/* ---------------------------------------------------------------------------------- classes */

struct entry *class_serves(const struct class *class, const struct xt_call *call,
                           int64_t *numbers) {
  for (int i = 0; i < class->count; i++)
    if (!class->entries[i]->stale && numbers_of(class->entries[i], call, numbers) == XT_HOLDS)
      return class->entries[i];
  return NULL;
}

int class_may_ask(const struct class *class) { return !class || class->asked < MOST_ASKED; }

void class_add(struct state *state, uint64_t hash, const struct xt_call *call,
               struct entry *entry) {
  struct class *class = xt_table_find(&state->classes, hash, call);
  if (!class) {
    if (state->classes.count >= MOST_CLASSES) xt_table_clear(&state->classes, class_drop);
    class = calloc(1, sizeof *class);
    if (!class || !xt_table_put(&state->classes, hash, call, class, class_drop)) {
      free(class);
      if (entry) entry_drop(entry);
      return;
    }
  }
  class->asked++;
  if (!entry) return;
  /* the latest is looked at first */
  struct entry *last = NULL;
  if (class->count == MOST_OF_CLASS) last = class->entries[--class->count];
  memmove(class->entries + 1, class->entries, sizeof *class->entries * (size_t)class->count);
  class->entries[0] = entry;
  class->count++;
  if (last) entry_drop(last);
}

void class_drop(void *pointer) {
  struct class *class = pointer;
  for (int i = 0; i < class->count; i++) entry_drop(class->entries[i]);
  free(class);
}

void class_unload(struct class *class, struct going *going) {
  int kept = 0;
  for (int i = 0; i < class->count; i++)
    if (entry_unload(class->entries[i], going)) class->entries[kept++] = class->entries[i];
  class->count = kept;
}
