/* What the NVTX source never gives back, given back between two inputs. */
#ifndef TESTS_FUZZ_NVTX_PARTS_H
#define TESTS_FUZZ_NVTX_PARTS_H

void fuzz_names_forget(void);
void fuzz_schemas_forget(void);

#endif
