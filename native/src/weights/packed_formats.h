// The formats of quantized weights by name (GGUF's, FP8, NVFP4 and others), and readers of their blocks.
#pragma once

#include <string>

#include "weights/packed.h"

namespace sluice {

// A span of a row: its codes, and the scales as they are stored. `first` and `second` are what a group stores once.
struct PackedRow {
  uint8_t codes[kSpan];
  uint16_t first, second;
  uint16_t halves[kSpan / 16], adds[kSpan / 16];  // for each `per` columns
  uint8_t small[kSpan / 16], offsets[kSpan / 16];
  uint32_t scales[kSpan / 16];  // the bits of a float32, or of a 16-bit number in the lower half
};

// Read a block, the index-th of a span.
using ReadBlock = void (*)(const uint8_t* at, int index, PackedRow& row);

struct PackedFile {
  const char* name;
  PackedKind kind;
  ReadBlock read;  // null: the codes are numbers
};

// How the blocks of a format of the table are read; null: the codes are numbers.
ReadBlock reader_of(const PackedKind& kind);

// The format of that name, or null.
const PackedFile* find_packed_file(const std::string& name);

}  // namespace sluice
