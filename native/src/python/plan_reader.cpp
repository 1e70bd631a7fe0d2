#include "python/plan_reader.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/numbers.h"

namespace nb = nanobind;

namespace sluice {

namespace {

// Reads the fields of one dictionary, whose path `at` is empty or ends with a dot.
class FieldReader {
 public:
  FieldReader(const nb::dict& given, std::string at) : given_(given), at_(std::move(at)) {}

  nb::object take(const char* name) {
    ++num_known_;
    if (!given_.contains(name)) throw BadArgument(at_ + name + " is missing");
    return given_[name];
  }

  template <class Value>
  void number(const char* name, Value& field, double least, double most) {
    using Number = std::conditional_t<std::is_integral_v<Value>, int64_t, double>;
    Number value;
    const nb::object given = take(name);
    if (nb::isinstance<nb::bool_>(given) || !nb::try_cast(given, value))
      throw BadArgument(at_ + name + " must be a number");
    if (!(static_cast<double>(value) >= least && static_cast<double>(value) <= most))
      throw BadArgument(at_ + name + " must be " + shown(least) + " to " + shown(most));
    field = static_cast<Value>(value);
  }

  void flag(const char* name, bool& field) {
    if (!nb::try_cast(take(name), field)) throw BadArgument(at_ + name + " must be true or false");
  }

  template <class Choice, size_t Count>
  void choice(const char* name, Choice& field, const char* const (&names)[Count]) {
    std::string given, known;
    if (!nb::try_cast(take(name), given)) throw BadArgument(at_ + name + " must be a text");
    for (size_t i = 0; i < Count; ++i) {
      known += (i > 0 ? ", " : "") + std::string(names[i]);
      if (given == names[i]) return void(field = static_cast<Choice>(i));
    }
    throw BadArgument(at_ + name + " must be one of " + known);
  }

  // Read a part, which stays zeros if it is None.
  template <class Part>
  void optional(const char* name, Part& field) {
    nb::dict inner;
    const nb::object given = take(name);
    if (given.is_none()) return;
    if (!nb::try_cast(given, inner)) throw BadArgument(at_ + name + " must be a dictionary or None");
    FieldReader reader(inner, at_ + name + ".");
    each_field(field, reader);
    reader.end();
  }

  // Read the first part if the dictionary has the field `marker`, otherwise the second; none if it is None.
  template <class First, class Second>
  void either(const char* name, const char* marker, First& first, Second& second) {
    nb::dict inner;
    const nb::object given = take(name);
    if (given.is_none()) return;
    if (!nb::try_cast(given, inner)) throw BadArgument(at_ + name + " must be a dictionary or None");
    FieldReader reader(inner, at_ + name + ".");
    if (inner.contains(marker))
      each_field(first, reader);
    else
      each_field(second, reader);
    reader.end();
  }

  // Call read(dictionary, its path) for each element of a list of dictionaries.
  template <class Read>
  void list(const char* name, const Read& read) {
    nb::object given = take(name);
    if (!nb::isinstance<nb::sequence>(given) || nb::isinstance<nb::str>(given))
      throw BadArgument(at_ + name + " must be a list");
    size_t count = 0;
    for (const nb::handle each : given) {
      const std::string path = at_ + name + "[" + std::to_string(count++) + "]";
      nb::dict inner;
      if (!nb::try_cast(each, inner)) throw BadArgument(path + " must be a dictionary");
      read(inner, path + ".");
    }
  }

  // Throws BadArgument for a field that was not read.
  void end() const {
    if (num_known_ == given_.size()) return;
    throw BadArgument((at_.empty() ? "plan" : at_.substr(0, at_.size() - 1)) + " has an unknown field");
  }

 private:
  const nb::dict& given_;
  std::string at_;
  size_t num_known_ = 0;
};

RotaryPlan read_rotary(const nb::dict& given, const std::string& at) {
  FieldReader reader(given, at);
  RotaryPlan rotary;
  reader.number("factor", rotary.factor, -kMostNumber, kMostNumber);
  if (!nb::try_cast(reader.take("inverse_frequencies"), rotary.inverse_frequencies))
    throw BadArgument(at + "inverse_frequencies must be a list of numbers");
  if (rotary.inverse_frequencies.size() > static_cast<size_t>(kMostHeadDim))
    throw BadArgument(at + "inverse_frequencies has too many elements");
  reader.end();
  return rotary;
}

}  // namespace

void read_plan(const nb::dict& given, Options& options) {
  FieldReader reader(given, "");
  each_field(options.plan, reader);
  reader.list("rotary",
              [&](const nb::dict& table, const std::string& at) { options.rotary.push_back(read_rotary(table, at)); });
  reader.list("layers", [&](const nb::dict& layer, const std::string& at) {
    FieldReader fields(layer, at);
    options.layers.emplace_back();
    each_field(options.layers.back(), fields);
    fields.end();
  });
  reader.end();
  options.plan.num_layers = static_cast<int>(options.layers.size());
}

}  // namespace sluice
