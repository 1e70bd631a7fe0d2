// The Python module. It checks the arrays' types, shapes and layouts; an invalid array is a ValueError that names it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "python/arrays.h"
#include "python/bind_sampling.h"
#include "python/numbers.h"
#include "python/plan_reader.h"
#include "weights/packed_formats.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sluice {
namespace {

Stored stored_type(const Array& array) {
  const auto type = array.dtype();
  if (type == nb::dtype<float>()) return Stored::Float32;
  if (type.bits == 16 && type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat)) return Stored::BFloat16;
  if (type == nb::dtype<uint16_t>()) return Stored::BFloat16;
  if (type.bits == 16 && type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float)) return Stored::Float16;
  throw BadArgument("tensor must be float32, bfloat16 (or its bits as uint16) or float16");
}

void load(Model& model, const std::string& name, const Array& tensor) {
  if (!is_contiguous(tensor)) throw BadArgument("tensor must be contiguous");
  StoredTensor stored{tensor.data(), stored_type(tensor), {}};
  for (size_t i = 0; i < tensor.ndim(); ++i) stored.shape.push_back(tensor.shape(i));
  const nb::gil_scoped_release released;
  model.load(name, stored);
}

void load_blocks(Model& model, const std::string& name, const Array& blocks, const std::optional<Array>& order) {
  if (blocks.dtype() != nb::dtype<uint8_t>()) throw BadArgument("blocks must be uint8");
  if (blocks.ndim() != 2 || !is_contiguous(blocks)) throw BadArgument("blocks must be contiguous and a matrix");
  const int32_t* inputs = order.has_value() ? ints(*order, "order", 1) : nullptr;
  const size_t num_inputs = order.has_value() ? order->shape(0) : 0;
  const nb::gil_scoped_release released;
  model.load_blocks(name, static_cast<const uint8_t*>(blocks.data()), blocks.shape(0), blocks.shape(1), inputs,
                    num_inputs);
}

nb::dict tensors(Model& model) {
  nb::dict shapes;
  for (const Tensor& tensor : model.tensors())
    shapes[tensor.name.c_str()] = nb::tuple(nb::cast(Model::shape_of(tensor.destination)));
  return shapes;
}

// Name of the module, down [rank, inputs], up [outputs, rank].
using GivenModules = std::vector<std::tuple<std::string, Array, Array>>;

const float* matrix_of(const Array& array, const std::string& argument) {
  if (array.dtype() != nb::dtype<float>()) throw BadArgument(argument + " must be float32");
  if (array.ndim() != 2 || !is_contiguous(array)) throw BadArgument(argument + " must be contiguous and a matrix");
  return static_cast<const float*>(array.data());
}

void put_adapter(Model& model, int slot, const GivenModules& given) {
  std::vector<GivenLowRank> modules;
  for (const auto& [name, down, up] : given) {
    const std::string at = "modules[" + std::to_string(modules.size()) + "]: ";
    const float *downs = matrix_of(down, at + "down"), *ups = matrix_of(up, at + "up");
    if (down.shape(0) != up.shape(1) || down.shape(0) > INT32_MAX)
      throw BadArgument(at + "down must have as many rows as up has columns");
    modules.push_back({name, static_cast<int>(down.shape(0)), down.shape(1), up.shape(0), downs, ups});
  }
  const nb::gil_scoped_release released;
  model.put_adapter(slot, modules);
}

// Set `data` to a caller's array of float32 [rows, columns], or to a new one, and return the array.
nb::object results(const std::optional<WritableArray>& given, const char* name, int num_rows, int num_columns,
                   float*& data) {
  const size_t rows = static_cast<size_t>(num_rows), columns = static_cast<size_t>(num_columns);
  if (given.has_value()) {
    const std::string argument = name;
    if (given->dtype() != nb::dtype<float>()) throw BadArgument(argument + " must be float32");
    if (given->ndim() != 2 || given->shape(0) != rows || given->shape(1) != columns)
      throw BadArgument(argument + " must have the shape [" + std::to_string(rows) + ", " + std::to_string(columns) +
                        "]");
    if (!is_contiguous(*given)) throw BadArgument(argument + " must be contiguous");
    data = static_cast<float*>(given->data());
    return nb::cast(*given);
  }
  data = new float[std::max<size_t>(rows * columns, 1)];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<float*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(data, {rows, columns}, owner));
}

// Rows of a model's memory, as bytes that can be written.
using Rows = nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>>;

Rows cache_rows(nb::handle_t<Model> owner) {
  const Cache& cache = nb::cast<Model&>(owner).cache();
  return Rows(cache.data, {static_cast<size_t>(cache.num_blocks), cache.block_bytes}, owner);
}

Rows state_rows(nb::handle_t<Model> owner) {
  const States& states = nb::cast<Model&>(owner).states();
  return Rows(states.data, {static_cast<size_t>(states.num_slots), states.numbers * sizeof(float)}, owner);
}

nb::object step(Model& model, const Array& token_ids, const Array& positions, const Array& row_offsets,
                const Array& context_lengths, const Array& block_tables, const Array& output_rows,
                std::optional<WritableArray> logits, int num_threads, const std::optional<Array>& adapters,
                const std::optional<Array>& states, const std::optional<Array>& arrivals) {
  Batch batch{};
  batch.token_ids = ints(token_ids, "token_ids", 1);
  batch.num_tokens = static_cast<int>(token_ids.shape(0));
  batch.positions = ints_of_length(positions, "positions", token_ids.shape(0));
  batch.context_lengths = ints(context_lengths, "context_lengths", 1);
  batch.num_sequences = static_cast<int>(context_lengths.shape(0));
  batch.row_offsets = ints_of_length(row_offsets, "row_offsets", context_lengths.shape(0) + 1);
  const size_t at = block_tables.ndim() == 3 ? 1 : 0;
  batch.block_tables = ints(block_tables, "block_tables", 2 + at);
  batch.num_groups = at > 0 ? static_cast<int>(block_tables.shape(0)) : 1;
  if (block_tables.shape(at) != context_lengths.shape(0))
    throw BadArgument("block_tables must have a row for each of the " + std::to_string(context_lengths.shape(0)) +
                      " sequences");
  batch.max_blocks = static_cast<int>(block_tables.shape(at + 1));
  batch.output_rows = ints(output_rows, "output_rows", 1);
  batch.num_rows = static_cast<int>(output_rows.shape(0));
  if (adapters.has_value()) batch.adapters = ints_of_length(*adapters, "adapters", context_lengths.shape(0));
  if (states.has_value()) {
    batch.states = ints(*states, "states", 2);
    if (states->shape(0) != context_lengths.shape(0) || states->shape(1) != kStateColumns)
      throw BadArgument("states must have four numbers for each of the " + std::to_string(context_lengths.shape(0)) +
                        " sequences");
  }
  if (arrivals.has_value()) {
    if (states.has_value()) throw BadArgument("arrivals can't be given with states, which a step changes in place");
    batch.arrivals = ints_of_length(*arrivals, "arrivals", 2);
  }
  checked_threads(num_threads, 0);

  const nb::object result = results(logits, "logits", batch.num_rows, model.options().plan.vocab_size, batch.logits);
  bool is_complete;
  {
    const nb::gil_scoped_release released;
    is_complete = model.step(batch, num_threads);
  }
  return is_complete ? result : nb::none();
}

nb::object encode(Model& model, const Array& token_ids, const Array& row_offsets, const Array& output_rows,
                  const std::optional<Array>& types, int num_threads) {
  Batch batch{};
  batch.token_ids = ints(token_ids, "token_ids", 1);
  batch.num_tokens = static_cast<int>(token_ids.shape(0));
  batch.row_offsets = ints(row_offsets, "row_offsets", 1);
  batch.num_sequences = static_cast<int>(row_offsets.shape(0)) - 1;
  batch.output_rows = ints(output_rows, "output_rows", 1);
  batch.num_rows = static_cast<int>(output_rows.shape(0));
  if (types.has_value()) batch.types = ints_of_length(*types, "types", token_ids.shape(0));
  checked_threads(num_threads, 0);
  const nb::object result =
      results(std::nullopt, "states", batch.num_rows, model.options().plan.hidden_size, batch.logits);
  const nb::gil_scoped_release released;
  model.encode(batch, num_threads);
  return result;
}

Type weight_type(const std::string& name) {
  if (name == "float32") return Type::Float32;
  if (name == "bfloat16") return Type::BFloat16;
  if (name == "int8") return Type::Int8;
  if (name == "int4") return Type::Int4;
  if (name == "packed") return Type::Packed;
  throw BadArgument("weight_type must be float32, bfloat16, int8, int4 or packed");
}

Stored cache_type(const std::string& name, Type weights) {
  if (name == "auto" && weights == Type::Packed) return Stored::Float16;
  if (name == "auto") return weights == Type::Float32 ? Stored::Float32 : Stored::BFloat16;
  if (name == "float32") return Stored::Float32;
  if (name == "bfloat16") return Stored::BFloat16;
  if (name == "float16") return Stored::Float16;
  if (name == "int8") return Stored::Int8;
  throw BadArgument("cache_type must be auto, float32, bfloat16, float16 or int8");
}

void construct(Model* self, const nb::dict& plan, const std::string& type, const std::string& cached, int num_threads,
               const std::string& instruction_set, const std::function<std::string(const std::string&)>& kinds) {
  Options options;
  options.type = weight_type(type);
  options.cache_type = cache_type(cached, options.type);
  options.num_threads = checked_threads(num_threads, 1);
  options.set = find_set(instruction_set);
  if (options.set == nullptr) throw BadArgument(unsupported_set_text(instruction_set));
  if (options.type == Type::Packed && !kinds) throw BadArgument("kinds is missing");
  options.kind_of = kinds;
  read_plan(plan, options);
  check_plan(options);
  new (self) Model(options);
}

std::string packed_product(const std::string& kind, const std::string& instruction_set) {
  const PackedFile* file = find_packed_file(kind);
  if (file == nullptr) throw BadArgument("kind: " + kind + " is unknown");
  for (const InstructionSet& set : instruction_sets())
    if (instruction_set == set.name) return set.product_name(file->kind);
  throw BadArgument("instruction_set: " + instruction_set + " is not in this build");
}

}  // namespace
}  // namespace sluice

NB_MODULE(_native, module) {
  using namespace sluice;
  nb::class_<Model>(module, "Model")
      .def("__init__", &construct, "plan"_a, nb::kw_only(), "weight_type"_a = "float32", "cache_type"_a = "auto",
           "num_threads"_a = 1, "instruction_set"_a = "auto", "kinds"_a.none() = nb::none())
      .def("load_blocks", &load_blocks, "name"_a, "blocks"_a, "order"_a = nb::none())
      .def("load", &load, "name"_a, "tensor"_a)
      .def("missing", &Model::missing)
      .def("tensors", &tensors)
      .def("allocate", &Model::allocate, "num_blocks"_a, "block_size"_a, "groups"_a = std::vector<int>(),
           "file"_a = -1, "offset"_a = 0, nb::call_guard<nb::gil_scoped_release>())
      .def("allocate_states", &Model::allocate_states, "num_states"_a, "file"_a = -1, "offset"_a = 0,
           nb::call_guard<nb::gil_scoped_release>())
      .def("cache_rows", &cache_rows)
      .def("state_rows", &state_rows)
      .def("step", &step, "token_ids"_a, "positions"_a, "row_offsets"_a, "context_lengths"_a, "block_tables"_a,
           "output_rows"_a, "logits"_a = nb::none(), "num_threads"_a = 0, "adapters"_a = nb::none(),
           "states"_a = nb::none(), "arrivals"_a = nb::none())
      .def("encode", &encode, "token_ids"_a, "row_offsets"_a, "output_rows"_a, "types"_a = nb::none(),
           "num_threads"_a = 0)
      .def("put_adapter", &put_adapter, "slot"_a, "modules"_a)
      .def("drop_adapter", &Model::drop_adapter, "slot"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("read_weights", &Model::read_weights, "num_threads"_a = 0, nb::call_guard<nb::gil_scoped_release>())
      .def("multiply_rate", &Model::multiply_rate, "num_threads"_a = 0, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("bytes_per_slot", &Model::bytes_per_slot)
      .def_prop_ro("bytes_per_state", &Model::bytes_per_state)
      .def_prop_ro("weight_bytes", &Model::weight_bytes)
      .def_prop_ro("adapter_bytes", &Model::adapter_bytes, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("instruction_set", [](const Model& model) { return std::string(model.options().set->name); });
  bind_sampling(module);
  module.def("packed_product", &packed_product, "kind"_a, "instruction_set"_a);
  module.def("instruction_sets", [] {
    std::vector<std::string> names;
    for (const InstructionSet& set : instruction_sets())
      if (set.is_runnable) names.push_back(set.name);
    return names;
  });
}
