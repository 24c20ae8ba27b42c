#include "record.h"

/* `count` zeroed items, where so many can follow at all: each has at least `least` bytes. */
static void *items(struct xt_bytes *bytes, unsigned count, size_t least, size_t size) {
  if (bytes->failed || count > (size_t)(bytes->end - bytes->at) / least) {
    bytes->failed = 1;
    return NULL;
  }
  void *made = calloc((size_t)count + 1, size);
  if (!made) bytes->failed = 1;
  return made;
}

static struct xt_pair *read_pairs(struct xt_bytes *bytes, unsigned *count) {
  unsigned there = xt_u16(bytes);
  struct xt_pair *pairs = items(bytes, there, 4, sizeof *pairs);
  for (*count = 0; pairs && *count < there; ++*count) {
    pairs[*count].name = xt_text(bytes);
    pairs[*count].value = xt_text(bytes);
  }
  return pairs;
}

static void drop_pairs(struct xt_pair *pairs, unsigned count) {
  for (unsigned i = 0; pairs && i < count; i++) {
    free(pairs[i].name);
    free(pairs[i].value);
  }
  free(pairs);
}

static void read_binary(struct xt_bytes *bytes, struct xt_binary *binary, unsigned slots) {
  binary->entry = xt_text(bytes);
  binary->threads = xt_u32(bytes);
  binary->shared_bytes = xt_u32(bytes);
  binary->specific = xt_u8(bytes) != 0;
  unsigned count = xt_u16(bytes);
  binary->parameters = items(bytes, count, 4, sizeof *binary->parameters);
  if (!binary->parameters || count > XT_MOST_SLOTS || !binary->threads ||
      binary->threads > 1u << 20) {
    bytes->failed = 1;
    return;
  }
  for (; binary->parameter_count < count; binary->parameter_count++) {
    struct xt_parameter *parameter = &binary->parameters[binary->parameter_count];
    parameter->type = (uint8_t)xt_u8(bytes);
    parameter->flags = (uint8_t)xt_u8(bytes);
    parameter->slot = (uint16_t)xt_u16(bytes);
    int hidden = parameter->flags & XT_HIDDEN;
    if (parameter->type >= XTARGET_DTYPE_COUNT || (!hidden && parameter->slot >= slots))
      bytes->failed = 1;
    binary->aligned_count += !hidden && (parameter->flags & XT_ALIGNED);
  }
  xt_read_mark(bytes, &binary->binary);
  binary->portable_arch = xt_text(bytes);
  if (binary->portable_arch && *binary->portable_arch) xt_read_mark(bytes, &binary->portable);
}

/* The first word of a text, cut off at its separator; `*at` is behind it then, or NULL at the end. */
static char *cut(char **at, char separator) {
  char *word = *at, *end = word ? strchr(word, separator) : NULL;
  if (end) *end++ = 0;
  *at = end;
  return word;
}

static int cut_count(char **at, char separator) {
  char *end, *word = cut(at, separator);
  long count = word ? strtol(word, &end, 10) : 0;
  return count >= 0 && count <= 1 << 20 && word && *word && !*end ? (int)count : -1;
}

/* What lines behind the name of a function's source say: warps and stages, then parameters. */
static void read_signature(struct xt_bytes *bytes, struct xt_function *function) {
  char *at = function->source;
  unsigned lines = 0, n = 0;
  if (!at) return;
  cut(&at, '\n');
  if (!at) return;
  for (const char *one = at; *one; one++) lines += *one == '\n';
  function->num_warps = cut_count(&at, ' ');
  function->num_stages = cut_count(&at, '\n');
  if (function->num_warps < 0 || function->num_stages < 0 || lines < function->slot_count) {
    bytes->failed = 1;
    return;
  }
  function->parameters = calloc((size_t)lines + 1, sizeof *function->parameters);
  if (!function->parameters) bytes->failed = 1;
  for (; !bytes->failed && at && n < lines; n++) {
    char *line = cut(&at, '\n'), *name = cut(&line, ' ');
    if (n >= function->slot_count) { /* NAME constexpr VALUE */
      char *type = cut(&line, ' ');
      if (!type || strcmp(type, "constexpr") != 0) line = NULL;
    }
    if (!line) bytes->failed = 1;
    function->parameters[n] = (struct xt_pair){name, line};
  }
  function->constant_count = lines - function->slot_count;
}

static void read_functions(struct xt_bytes *bytes, struct xt_record *record) {
  unsigned count = xt_u16(bytes);
  record->functions = items(bytes, count, 6, sizeof *record->functions);
  for (; !bytes->failed && record->function_count < count; record->function_count++) {
    struct xt_function *function = &record->functions[record->function_count];
    function->source = xt_text(bytes);
    function->slot_count = xt_u16(bytes);
    unsigned binaries = xt_u16(bytes);
    function->binaries = items(bytes, binaries, 66, sizeof *function->binaries);
    for (; !bytes->failed && function->binary_count < binaries; function->binary_count++)
      read_binary(bytes, &function->binaries[function->binary_count], function->slot_count);
    if (!bytes->failed) read_signature(bytes, function);
  }
}

static unsigned read_fill(struct xt_bytes *bytes, uint8_t fill[8]) {
  unsigned size = xt_u8(bytes);
  const uint8_t *from = xt_take(bytes, size);
  if (size > 8 || (size & (size - 1))) bytes->failed = 1;
  if (!bytes->failed) memcpy(fill, from, size);
  return size;
}

static void read_program(struct xt_bytes *bytes, struct xt_program *program) {
  program->symbol_count = (int)xt_u16(bytes);
  program->constant_count = (int)xt_u16(bytes);
  program->step_count = (int)xt_u16(bytes);
  program->result_count = (int)xt_u16(bytes);
  program->constants =
      items(bytes, (unsigned)program->constant_count, 8, sizeof *program->constants);
  for (int i = 0; !bytes->failed && i < program->constant_count; i++)
    program->constants[i] = (int64_t)xt_number(bytes, 8);
  program->steps = items(bytes, (unsigned)program->step_count, 6, sizeof *program->steps);
  for (int i = 0; !bytes->failed && i < program->step_count; i++) {
    struct xt_step *step = &program->steps[i];
    step->operation = (uint16_t)xt_u16(bytes);
    step->a = (uint16_t)xt_u16(bytes);
    step->b = (uint16_t)xt_u16(bytes);
  }
  if (program->result_count > XT_MOST_RESULTS) bytes->failed = 1;
  for (int i = 0; !bytes->failed && i < program->result_count; i++)
    program->results[i] = (uint16_t)xt_u16(bytes);
  if (!bytes->failed && !xt_program_is_sound(program)) bytes->failed = 1;
}

static void read_arrays(struct xt_bytes *bytes, struct xt_form *form, int *symbols, int *results) {
  form->argument_count = xt_u8(bytes);
  if (form->argument_count > XT_MOST_ARGUMENTS) bytes->failed = 1;
  for (unsigned i = 0; !bytes->failed && i < form->argument_count; i++) {
    struct xt_form_argument *argument = &form->arguments[i];
    argument->kind = (uint8_t)xt_u8(bytes);
    argument->dtype = (uint8_t)xt_u8(bytes);
    argument->dimensions = (uint8_t)xt_u8(bytes);
    argument->contiguous = (uint8_t)xt_u8(bytes);
    if (argument->kind > 2 || argument->dtype >= XTARGET_DTYPE_COUNT ||
        argument->dimensions > XT_MOST_AXES)
      bytes->failed = 1;
    if (argument->kind == 2) *symbols += argument->dimensions * (argument->contiguous ? 1 : 2);
  }
  form->output_count = xt_u8(bytes);
  if (form->output_count > XT_MOST_ARGUMENTS) bytes->failed = 1;
  for (unsigned i = 0; !bytes->failed && i < form->output_count; i++) {
    struct xt_form_output *output = &form->outputs[i];
    output->dtype = (uint8_t)xt_u8(bytes);
    output->dimensions = (uint8_t)xt_u8(bytes);
    output->given = (uint8_t)xt_u8(bytes);
    output->fill_size = (uint8_t)read_fill(bytes, output->fill);
    if (output->dtype >= XTARGET_DTYPE_COUNT || output->dimensions > XT_MOST_AXES ||
        output->given > 1 ||
        (output->fill_size && output->fill_size != xt_dtype_sizes[output->dtype]))
      bytes->failed = 1;
    *(output->given ? symbols : results) += 2 * output->dimensions;
  }
}

static void read_launches(struct xt_bytes *bytes, const struct xt_record *record,
                          struct xt_form *form, int *results) {
  unsigned values = form->argument_count + form->output_count + form->temporary_count;
  unsigned launches = xt_u8(bytes);
  form->launches = items(bytes, launches, 4, sizeof *form->launches);
  for (; !bytes->failed && form->launch_count < launches; form->launch_count++) {
    struct xt_form_launch *launch = &form->launches[form->launch_count];
    launch->function = xt_u16(bytes);
    unsigned count = xt_u16(bytes);
    launch->grid = (unsigned)*results;
    *results += 3;
    launch->parameters = items(bytes, count, 9, sizeof *launch->parameters);
    if (bytes->failed || launch->function >= record->function_count ||
        count != record->functions[launch->function].slot_count)
      bytes->failed = 1;
    for (; !bytes->failed && launch->parameter_count < count; launch->parameter_count++) {
      struct xt_launch_parameter *parameter = &launch->parameters[launch->parameter_count];
      parameter->kind = (uint8_t)xt_u8(bytes);
      parameter->number = xt_number(bytes, 8);
      if (parameter->kind == XT_FROM_SIZE) parameter->number = (uint64_t)(*results)++;
      if (parameter->kind > XT_FROM_FIXED ||
          (parameter->kind == XT_FROM_VALUE && parameter->number >= values))
        bytes->failed = 1;
    }
  }
}

/* Whether a launch gives arrays for memory, and numbers for numbers. */
static int fits(const struct xt_record *record, const struct xt_form *form) {
  for (unsigned i = 0; i < form->launch_count; i++) {
    const struct xt_form_launch *launch = &form->launches[i];
    const struct xt_function *function = &record->functions[launch->function];
    for (unsigned b = 0; b < function->binary_count; b++)
      for (unsigned p = 0; p < function->binaries[b].parameter_count; p++) {
        const struct xt_parameter *parameter = &function->binaries[b].parameters[p];
        if (parameter->flags & XT_HIDDEN) continue;
        const struct xt_launch_parameter *given = &launch->parameters[parameter->slot];
        int memory = given->kind == XT_FROM_VALUE &&
                     (given->number >= form->argument_count ||
                      form->arguments[given->number].kind == 2);
        if (memory != ((parameter->flags & XT_MEMORY) != 0)) return 0;
      }
  }
  return 1;
}

static void read_forms(struct xt_bytes *bytes, struct xt_record *record) {
  unsigned count = xt_u16(bytes);
  if (count > XT_MOST_FORMS) bytes->failed = 1;
  record->forms = items(bytes, count, 14, sizeof *record->forms);
  for (; !bytes->failed && record->form_count < count; record->form_count++) {
    struct xt_form *form = &record->forms[record->form_count];
    int symbols = 1, results = 0; /* the first symbol is the device's compute units */
    form->options = read_pairs(bytes, &form->option_count);
    read_arrays(bytes, form, &symbols, &results);
    read_program(bytes, &form->program);
    form->temporaries_at = (unsigned)results;
    form->temporary_count = xt_u8(bytes);
    if (form->temporary_count > XT_MOST_ARGUMENTS) bytes->failed = 1;
    for (unsigned i = 0; !bytes->failed && i < form->temporary_count; i++)
      form->temporaries[i].fill_size = (uint8_t)read_fill(bytes, form->temporaries[i].fill);
    results += (int)form->temporary_count;
    read_launches(bytes, record, form, &results);
    if (!bytes->failed &&
        (symbols != form->program.symbol_count || results != form->program.result_count ||
         !fits(record, form)))
      bytes->failed = 1;
  }
}

static void read_inputs(struct xt_bytes *bytes, struct xt_record *record) {
  unsigned count = xt_u16(bytes);
  record->inputs = items(bytes, count, 3, sizeof *record->inputs);
  for (; !bytes->failed && record->input_count < count; record->input_count++) {
    struct xt_input *input = &record->inputs[record->input_count];
    input->name = xt_text(bytes);
    unsigned flags = xt_u8(bytes);
    input->updated = (flags & 1) != 0;
    input->optional = (flags & 2) != 0;
  }
}

int xt_record_read(const xtarget_bundle *bundle, const struct xt_section *section,
                   const struct xt_row *row, struct xt_record **result) {
  uint8_t *content;
  int status = xt_section_bytes(bundle, section, &row->mark, XT_MOST_RECORD, &content);
  if (status) return status;
  struct xt_record *record = calloc(1, sizeof *record);
  if (!record) {
    free(content);
    return xt_no_memory();
  }
  struct xt_bytes bytes = {content, content + row->mark.raw, 0};
  record->kernel = xt_text(&bytes);
  record->dtype = xt_text(&bytes);
  record->elementwise = (xt_u8(&bytes) & 1) != 0;
  read_inputs(&bytes, record);
  record->defaults = read_pairs(&bytes, &record->default_count);
  if (!bytes.failed) read_functions(&bytes, record);
  if (!bytes.failed) read_forms(&bytes, record);
  int right = !bytes.failed && bytes.at == bytes.end && !strcmp(record->kernel, row->kernel) &&
              !strcmp(record->dtype, row->dtype);
  for (unsigned i = 0; right && i < record->form_count; i++)
    right = record->forms[i].argument_count <= record->input_count;
  free(content);
  if (!right) {
    xt_record_drop(record);
    return xt_fail(XTARGET_BAD_BUNDLE, "the bundle %s is refused: the call record of %.80s for %.80s "
                   "is not of the form that its version has. Build it again.", bundle->path,
                   row->kernel, section->target);
  }
  *result = record;
  return XTARGET_OK;
}

void xt_record_drop(struct xt_record *record) {
  if (!record) return;
  for (unsigned i = 0; record->inputs && i <= record->input_count; i++) free(record->inputs[i].name);
  /* what was read in part counts too: the items are zeroed, and one more than there are */
  for (unsigned i = 0; record->functions && i <= record->function_count; i++) {
    struct xt_function *function = &record->functions[i];
    for (unsigned b = 0; function->binaries && b <= function->binary_count; b++) {
      free(function->binaries[b].entry);
      free(function->binaries[b].portable_arch);
      free(function->binaries[b].parameters);
    }
    free(function->binaries);
    free(function->parameters);
    free(function->source);
  }
  for (unsigned i = 0; record->forms && i <= record->form_count; i++) {
    struct xt_form *form = &record->forms[i];
    for (unsigned n = 0; form->launches && n <= form->launch_count; n++)
      free(form->launches[n].parameters);
    free(form->launches);
    free(form->program.constants);
    free(form->program.steps);
    drop_pairs(form->options, form->option_count);
  }
  drop_pairs(record->defaults, record->default_count);
  free(record->inputs);
  free(record->functions);
  free(record->forms);
  free(record->kernel);
  free(record->dtype);
  free(record);
}
