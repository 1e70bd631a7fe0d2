// The Python module's part for sampling: DrawParams, sample and uniforms.
#pragma once

#include <nanobind/nanobind.h>

namespace sluice {

void bind_sampling(nanobind::module_& module);

}  // namespace sluice
