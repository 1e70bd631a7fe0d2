#include "python/bind_sampling.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "python/arrays.h"
#include "python/numbers.h"
#include "sampling.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sluice {
namespace {

// Set a field from a Python number, if it is in the field's range.
template <class Value>
void set_field(Value& field, const char* name, const nb::handle& given, double least, double most) {
  using Number = std::conditional_t<std::is_integral_v<Value>, Value, double>;
  Number value;
  if (!nb::try_cast(given, value)) throw BadArgument(std::string(name) + " must be a number of the field's type");
  const double number = static_cast<double>(value);
  if (!(number >= least && number <= most))
    throw BadArgument(std::string(name) + " must be " +
                      (std::isinf(most) ? "at least " + shown(least) : shown(least) + " to " + shown(most)));
  field = static_cast<Value>(value);
}

void construct_draw(DrawParams* self, const nb::kwargs& given) {
  DrawParams params;
  size_t num_known = 0;
  for_each_field([&](const char* name, auto member, double least, double most) {
    if (!given.contains(name)) return;
    ++num_known;
    set_field(params.*member, name, given[name], least, most);
  });
  if (num_known != given.size()) {
    std::string names;
    for_each_field(
        [&](const char* name, auto, double, double) { names += (names.empty() ? "" : ", ") + std::string(name); });
    throw nb::type_error(("the fields of DrawParams are " + names).c_str());
  }
  new (self) DrawParams(params);
}

std::vector<int> sample(const Array& logits, const std::vector<int64_t>& rows, const std::vector<DrawParams>& params,
                        const std::vector<double>& uniforms, int num_threads, const std::string& instruction_set) {
  if (logits.dtype() != nb::dtype<float>()) throw BadArgument("logits must be float32");
  if (logits.ndim() != 2 || logits.shape(1) < 1 || logits.shape(1) > INT32_MAX || !is_contiguous(logits))
    throw BadArgument("logits must be contiguous and have the shape [rows, vocabulary]");
  const size_t count = rows.size();
  if (params.size() != count) throw BadArgument("params must have one element per row");
  if (uniforms.size() != count) throw BadArgument("uniforms must have one element per row");
  for (size_t i = 0; i < count; ++i) {
    const std::string at = "[" + std::to_string(i) + "]";
    if (rows[i] < 0 || rows[i] >= static_cast<int64_t>(logits.shape(0)))
      throw BadArgument("rows" + at + " must be at least 0 and below " + std::to_string(logits.shape(0)));
    if (!(uniforms[i] >= 0 && uniforms[i] < 1)) throw BadArgument("uniforms" + at + " must be at least 0 and below 1");
  }
  const InstructionSet* set = find_set(instruction_set);
  if (set == nullptr) throw BadArgument(unsupported_set_text(instruction_set));
  num_threads = std::min(checked_threads(num_threads, 1), static_cast<int>(std::max<size_t>(count, 1)));
  const int vocab_size = static_cast<int>(logits.shape(1));
  const auto* data = static_cast<const float*>(logits.data());
  std::vector<int> tokens(count);
  const nb::gil_scoped_release released;
  std::atomic<size_t> next{0};
  Pool::shared().run(num_threads, [&](int) {
    static thread_local SamplingScratch scratch;
    for (size_t i; (i = next.fetch_add(1)) < count;)
      tokens[i] = sample_row(*set, data + rows[i] * vocab_size, vocab_size, params[i], uniforms[i], scratch);
  });
  return tokens;
}

std::vector<double> uniforms(const std::vector<uint64_t>& seeds, const std::vector<uint64_t>& indices) {
  if (seeds.size() != indices.size()) throw BadArgument("indices must have one element per seed");
  std::vector<double> numbers;
  for (size_t i = 0; i < seeds.size(); ++i) numbers.push_back(uniform_of(seeds[i], indices[i]));
  return numbers;
}

}  // namespace

void bind_sampling(nb::module_& module) {
  nb::class_<DrawParams> draw_params(module, "DrawParams");
  draw_params.def("__init__", &construct_draw);
  for_each_field([&](const char* name, auto member, double, double) { draw_params.def_ro(name, member); });
  module.def("sample", &sample, "logits"_a, "rows"_a, "params"_a, "uniforms"_a, "num_threads"_a = 1,
             "instruction_set"_a = "auto");
  module.def("uniforms", &uniforms, "seeds"_a, "indices"_a);
}

}  // namespace sluice
