// In place of Warp's header of the same name, on the CPU: what Warp writes around a kernel needs this much of it, and
// clang reads Warp's for more than a second. The names and the layout of launch_bounds_t are Warp's.
#pragma once
#include "api.h"
#define CUDA_CALLABLE
#define WP_FORCEINLINE inline __attribute__((always_inline))
typedef __SIZE_TYPE__ size_t;
namespace wp {
typedef int int32; typedef long long int64; typedef unsigned long long uint64;
template <int N> struct launch_bounds_t { unsigned shape[N]; size_t size, coord_mult; };
template <bool Linear, int N> inline int linear_tid(size_t index, const launch_bounds_t<N>& bounds) {
  return (int)(bounds.coord_mult > 1 ? index / bounds.coord_mult : index); }
struct tile_shared_storage_t {};
static tile_shared_storage_t* shared_tile_storage;
}
