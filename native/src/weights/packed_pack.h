// Conversion of a file's rows of blocks to the packed layout (see packed.h).
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "weights/pack.h"
#include "weights/packed.h"

namespace sluice {

// The format of that name, or null.
const PackedKind* find_packed_kind(const std::string& name);

// The bytes of a file's row, whose columns are a multiple of the blocks'.
size_t packed_row_bytes(const PackedKind& kind, int columns);

// Pack a file's row as row `lane` of a group.
void pack_block_row(const PackedKind& kind, const uint8_t* from, int columns, int lane, uint8_t* group);

// Pack the rows [begin, end) of a tensor's blocks, whose row i becomes target_row(order, first + i).
void pack_block_rows(Matrix& matrix, int first, RowOrder order, const uint8_t* blocks, int begin, int end);

// The groups of all packed matrices of a model.
class PackedGroups {
 public:
  // Set the format of the groups of a tensor's rows.
  void assign(Matrix& matrix, RowOrder order, int first, int count, const PackedKind* kind);
  // Return true if the groups of a tensor's rows still have that format, so that no other tensor shares one of them.
  static bool are_whole(RowOrder order, int first, int count, const Matrix& matrix, const PackedKind* kind);

 private:
  std::unordered_map<const Matrix*, std::vector<PackedGroup>> groups_;
};

}  // namespace sluice
