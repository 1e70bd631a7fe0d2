// From a weight's rows as a checkpoint keeps them to the packed layout (see types.h).
#pragma once

#include "types.h"

namespace sluice {

// How the rows of a caller's array are stored.
enum class Stored { Float32, BFloat16, Float16 };

float read_stored(const void* data, Stored stored, size_t index);

// `count` elements in the order they have, as Float32 or BFloat16.
void store_rows(Type type, void* to, const void* data, Stored stored, size_t count);

// Sizes of a matrix, without memory.
Matrix plan_matrix(Type type, int rows, int cols);

// Bytes of everything that belongs to the matrix; place_matrix puts it at `memory`, which must be zeros.
size_t matrix_bytes(const Matrix& matrix, bool has_bias);
void place_matrix(Matrix& matrix, bool has_bias, uint8_t* memory);

// Pack `count` rows [count, cols]; row i becomes row target(first + i), where target is the identity or, for gate (0)
// and up (1), interleaved by 16.
enum class RowOrder { Plain, Gate, Up };
int target_row(RowOrder order, int row);
void pack_rows(Matrix& matrix, int first, RowOrder order, const void* data, Stored stored, int count);

}  // namespace sluice
