// From a weight's rows as a checkpoint keeps them to the packed layout (see types.h).
#pragma once

#include "types.h"

namespace sluice {

float read_stored(const void* data, Stored stored, size_t index);

// `count` elements in the order they have, as Float32 or BFloat16.
void store_rows(Type type, void* to, const void* data, Stored stored, size_t count);

// Sizes of a matrix, without memory.
Matrix plan_matrix(Type type, int rows, int cols);

// Bytes of everything that belongs to the matrix; place_matrix puts it at `memory`, which must be zeros.
size_t matrix_bytes(const Matrix& matrix, bool has_bias);
void place_matrix(Matrix& matrix, bool has_bias, uint8_t* memory);

// Which row of the packed matrix a row of a tensor becomes: the same, or, for gate and up, interleaved by 16.
enum class RowOrder { Plain, Gate, Up };
int target_row(RowOrder order, int row);

// Pack the rows [begin, end) of a tensor [rows, cols], whose row i becomes target_row(order, first + i). Several
// threads may pack rows of one tensor.
void pack_rows(Matrix& matrix, int first, RowOrder order, const void* data, Stored stored, int begin, int end);

}  // namespace sluice
