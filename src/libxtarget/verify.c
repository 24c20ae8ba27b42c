/* Reading all of a bundle that this library may use. */
#include "record.h"

static int read_binaries(const xtarget_bundle *bundle, const struct xt_section *section,
                         const struct xt_record *record) {
  int status = XTARGET_OK;
  for (unsigned f = 0; !status && f < record->function_count; f++)
    for (unsigned b = 0; !status && b < record->functions[f].binary_count; b++) {
      const struct xt_binary *binary = &record->functions[f].binaries[b];
      uint8_t *bytes;
      status = xt_section_bytes(bundle, section, &binary->binary, XT_MOST_BINARY, &bytes);
      if (status) return status;
      free(bytes);
      if (!*binary->portable_arch) continue;
      status = xt_section_bytes(bundle, section, &binary->portable, XT_MOST_BINARY, &bytes);
      if (!status) free(bytes);
    }
  return status;
}

int xtarget_bundle_verify(xtarget_bundle *bundle) {
  int status = XTARGET_OK;
  if (!bundle)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_bundle_verify needs a bundle."));
  for (unsigned i = 0; !status && i < bundle->section_count; i++) {
    struct xt_section *section = &bundle->sections[i];
    status = xt_section_read(bundle, section);
    for (uint32_t row = 0; !status && row < section->row_count; row++) {
      struct xt_record *record = NULL;
      status = xt_record_read(bundle, section, &section->rows[row], &record);
      if (!status) status = read_binaries(bundle, section, record);
      xt_record_drop(record);
    }
  }
  return xt_told(status);
}
