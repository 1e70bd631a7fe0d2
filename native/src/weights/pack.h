// Conversion of weights from checkpoint order to the packed layout (see types.h).
#pragma once

#include "types.h"

namespace sluice {

float read_stored(const void* data, Stored stored, size_t index);

// Convert `count` elements to Float32 or BFloat16, in their order.
void store_rows(Type type, void* to, const void* data, Stored stored, size_t count);

// Return a matrix with its sizes set, without memory.
Matrix plan_matrix(Type type, int rows, int cols);

// Bytes of a matrix with its scales and bias. place_matrix sets its pointers into `memory`, which must be zeros.
size_t matrix_bytes(const Matrix& matrix, bool has_bias);
void place_matrix(Matrix& matrix, bool has_bias, uint8_t* memory);

// How the rows of a tensor map to rows of the packed matrix: unchanged, or interleaved by 16 for gate and up.
enum class RowOrder { Plain, Gate, Up };
int target_row(RowOrder order, int row);

// Pack the rows [begin, end) of a tensor [rows, cols], whose row i becomes target_row(order, first + i). Several
// threads may pack rows of one tensor.
void pack_rows(Matrix& matrix, int first, RowOrder order, const void* data, Stored stored, int begin, int end);

}  // namespace sluice
