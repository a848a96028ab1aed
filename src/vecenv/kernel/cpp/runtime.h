// What generated programs stand on: Python's arithmetic (struct U) and NumPy's random streams (struct R).
// Without headers and templates: all of this stands inside the body of one function, for clang and for NVRTC alike.
// `real` is double (exact) or float (fast). EXACT forbids clang to fuse products and sums; for NVRTC an option does.
// An int that overflows wraps; in C++ alone that would be undefined, as it is in native code of the compiled engine.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wparentheses-equality"
#pragma clang diagnostic ignored "-Wtautological-compare"
#pragma clang diagnostic ignored "-Wunused-value"
#endif
typedef long long i64; typedef unsigned long long u64;
#undef EXACT
#undef M_
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
  #define VECENV_GPU 1
  #define EXACT
#else
  #define EXACT _Pragma("clang fp contract(off)")
#endif
#ifdef VECENV_GPU
  #ifdef VECENV_FAST
    #define M_(name) ::name##f
  #else
    #define M_(name) ::name
  #endif
#else
  #ifdef VECENV_FAST
    #define M_(name) __builtin_##name##f
  #else
    #define M_(name) __builtin_##name
  #endif
#endif
#define F_ static CUDA_CALLABLE
struct U {
  // Ask for memory that is needed soon.
  F_ void fetch(const void* p, i64 bytes) {
#ifndef VECENV_GPU
    for (i64 at = 0; at < bytes; at += 64) __builtin_prefetch((const char*)p + at, 1);
#endif
  }
  F_ real fused(real x, real y, real z) { return M_(fma)(x, y, z); }
  // --- places in arrays
  F_ i64 place(i64 i, i64 n) { return i < 0 ? i + n : i; }
  F_ i64 bound(i64 i, i64 n) { i = i < 0 ? i + n : i; return i < 0 ? 0 : i > n ? n : i; }
  F_ i64 bound_back(i64 i, i64 n) { i = i < 0 ? i + n : i; return i < 0 ? -1 : i >= n ? n - 1 : i; }
  F_ i64 span(i64 low, i64 high, i64 step) {
    if (step > 0) return high > low ? (high - low + step - 1) / step : 0;
    return low > high ? (low - high - step - 1) / -step : 0; }
  // --- ints
  F_ i64 add_i(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
  F_ i64 sub_i(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
  F_ i64 mul_i(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
  F_ i64 neg_i(i64 a) { return (i64)(0ULL - (u64)a); }
  F_ i64 shl_i(i64 a, i64 b) { return (i64)((u64)a << (b & 63)); }
  F_ i64 shr_i(i64 a, i64 b) { return a >> (b & 63); }
  F_ i64 floordiv_i(i64 a, i64 b) {
    if (b == 0) return 0;
    if (b == -1) return neg_i(a);
    const i64 q = a / b; return (q * b != a && ((a < 0) != (b < 0))) ? q - 1 : q; }
  F_ i64 mod_i(i64 a, i64 b) {
    if (b == 0 || b == -1) return 0;
    const i64 r = a % b; return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }
  F_ i64 min_i(i64 a, i64 b) { return b < a ? b : a; }
  F_ i64 max_i(i64 a, i64 b) { return b > a ? b : a; }
  F_ i64 abs_i(i64 a) { return a < 0 ? neg_i(a) : a; }
  F_ i64 pow_i(i64 a, i64 n) {
    u64 result = 1, base = (u64)a;
    if (n < 0) return 0;
    for (; n > 0; n >>= 1) { if (n & 1) result *= base; base *= base; }
    return (i64)result; }
  F_ i64 gcd(i64 a, i64 b) { a = abs_i(a); b = abs_i(b); while (b != 0) { const i64 c = a % b; a = b; b = c; } return a; }
  F_ i64 to_int(real a) { return (i64)a; }
  // --- floats
  F_ real inf() { return (real)(1e300 * 1e300); }
  F_ real nan() { return inf() - inf(); }
  F_ real mod_f(real a, real b) { EXACT
    real m = M_(fmod)(a, b);
    if (m != 0) { if ((b < 0) != (m < 0)) m += b; } else m = M_(copysign)((real)0, b);
    return m; }
  F_ real floordiv_f(real a, real b) { EXACT
    if (b == 0) return a / b;
    const real m = M_(fmod)(a, b); real d = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) d -= 1;
    if (d == 0) return M_(copysign)((real)0, a / b);
    const real f = M_(floor)(d); return d - f > (real)0.5 ? f + 1 : f; }
  F_ real min_f(real a, real b) { return b < a ? b : a; }
  F_ real max_f(real a, real b) { return b > a ? b : a; }
  F_ real abs_f(real a) { return M_(fabs)(a); }
  F_ bool isnan_(real a) { return a != a; }
  F_ bool isfinite_(real a) { return a - a == 0; }
  F_ bool isinf_(real a) { return a == a && a - a != 0; }
#ifdef VECENV_GPU
  F_ real pow_(real a, real b) { return M_(pow)(a, b); }
  F_ float powf_(float a, float b) { return ::powf(a, b); }
  F_ real squared(real a) { return a * a; }
#else
  // The exponent is hidden: clang makes x * x of pow(x, 2.0), whose last bit differs from pow's once in a thousand.
  F_ real pow_(real a, real b) { volatile real hidden = b; return M_(pow)(a, hidden); }
  F_ float powf_(float a, float b) { volatile float hidden = b; return __builtin_powf(a, hidden); }
  #ifdef VECENV_FAST
  F_ real squared(real a) { return a * a; }
  #else
  // The error of pow is below 0.52 units in the last place: it can differ from x * x only where the exact square is
  // nearly half way between two numbers, and is called only there.
  F_ real squared(real a) { EXACT
    const real square = a * a, rest = __builtin_fma(a, a, -square);
    union { double number; u64 bits; } unit; unit.number = square; unit.bits &= 0x7FF0000000000000ULL;
    return M_(fabs)(rest) <= 0.45 * (unit.number * 2.220446049250313e-16) ? square : pow_(a, (real)2); }
  #endif
#endif
#define ONE_(name) F_ real name##_(real a) { return M_(name)(a); }
  ONE_(acos) ONE_(acosh) ONE_(asin) ONE_(asinh) ONE_(atan) ONE_(atanh) ONE_(ceil) ONE_(cosh) ONE_(erf)
  ONE_(erfc) ONE_(exp) ONE_(expm1) ONE_(fabs) ONE_(floor) ONE_(log) ONE_(log10) ONE_(log1p) ONE_(log2) ONE_(rint)
  ONE_(sinh) ONE_(sqrt) ONE_(tanh) ONE_(trunc)
#ifndef VECENV_FAST
  ONE_(sin) ONE_(cos) ONE_(tan)
#else
  // CUDA's sinf, cosf and tanf compute with 64 bits where |x| is large. These do not, and have the same bits on the CPU:
  // x is reduced by multiples of pi/2 in three parts; within 2e-7 for |x| <= 1e5.
  F_ real turned(real x, real shift) { EXACT
    const real turns = rint_(x * (real)0.63661977236758134);
    const real left = ((x - turns * (real)1.5703125) - turns * (real)4.837512969970703125e-4) - turns * (real)7.549789948768648e-8;
    const real z = left * left, quarter = turns + shift - 4 * floor_((turns + shift) * (real)0.25);
    const real sine = ((z * (real)-1.9515295891e-4 + (real)8.3321608736e-3) * z - (real)1.6666654611e-1) * z * left + left;
    const real cosine = ((z * (real)2.443315711809948e-5 - (real)1.388731625493765e-3) * z + (real)4.166664568298827e-2) * z * z
      - (real)0.5 * z + 1;
    const real value = (quarter == 1 || quarter == 3) ? cosine : sine;
    return quarter >= 2 ? -value : value; }
  F_ real sin_(real x) { return turned(x, 0); }
  F_ real cos_(real x) { return turned(x, 1); }
  F_ real tan_(real x) { return sin_(x) / cos_(x); }
#endif
#undef ONE_
  F_ real atan2_(real a, real b) { return M_(atan2)(a, b); }
  F_ real copysign_(real a, real b) { return M_(copysign)(a, b); }
  F_ real fmod_(real a, real b) { return M_(fmod)(a, b); }
  F_ real fma_(real a, real b, real c) { return M_(fma)(a, b, c); }
#ifdef VECENV_FAST
  F_ real hypot_(real x, real y, real z) { return M_(sqrt)(x * x + y * y + z * z); }
#else
  // As Python's math.hypot computes it: scaled, in twice the precision, corrected once.
  F_ real hypot_(real x, real y, real z) { EXACT
    x = abs_f(x); y = abs_f(y); z = abs_f(z);
    if (x == inf() || y == inf() || z == inf()) return inf();
    real largest = max_f(x, max_f(y, z)), small = 1;
    if (!(largest > 0)) return x + y + z;
    if (largest < 2.2250738585072014e-308) {
      small = 2.2250738585072014e-308; x = x / small; y = y / small; z = z / small; largest = largest / small; }
    union { double number; i64 bits; } u; u.number = largest;
    const i64 exponent = (u.bits >> 52) - 1022;
    u.bits = exponent < 1023 ? (1023 - exponent) << 52 : 1LL << (1074 - exponent);
    const real scale = u.number; real total = 1, low = 0, lost = 0;
    for (int k = 0; k < 3; ++k) {
      const real part = (k == 0 ? x : k == 1 ? y : z) * scale, square = part * part, added = total + square;
      low += fma_(part, part, -square); lost += (total - added) + square; total = added; }
    const real root = M_(sqrt)(total - 1 + (low + lost)), square = -root * root, added = total + square;
    low += fma_(-root, root, -square); lost += (total - added) + square;
    const real rest = added - 1 + (low + lost);
    return small * ((root + rest / (2 * root)) / scale); }
#endif
  // --- sums in NumPy's order
#define PAIRWISE_(letter, number) \
  F_ number block_##letter(const number* p, i64 s, i64 begin, i64 count) { EXACT \
    if (count < 8) { number total = -(number)0; for (i64 k = 0; k < count; ++k) total += p[(begin + k) * s]; return total; } \
    number r[8]; for (int k = 0; k < 8; ++k) r[k] = p[(begin + k) * s]; \
    const i64 whole = count - count % 8; \
    for (i64 turn = 8; turn < whole; turn += 8) for (int k = 0; k < 8; ++k) r[k] += p[(begin + turn + k) * s]; \
    number total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7])); \
    for (i64 k = whole; k < count; ++k) total += p[(begin + k) * s]; \
    return total; } \
  F_ number pairwise_##letter(const number* p, i64 s, i64 count) { EXACT \
    if (count <= 128) return (number)0 + block_##letter(p, s, 0, count); \
    i64 begins[24], sizes[24]; int begun[24]; number sums[24]; int top = 0, last = -1; \
    begins[0] = 0; sizes[0] = count; begun[0] = 0; \
    while (top >= 0) { \
      const i64 size = sizes[top]; i64 half = size / 2; half -= half % 8; \
      if (size <= 128) { last += 1; sums[last] = block_##letter(p, s, begins[top], size); top -= 1; } \
      else if (begun[top] == 2) { last -= 1; sums[last] += sums[last + 1]; top -= 1; } \
      else { const int b = begun[top]; const i64 begin = begins[top]; begun[top] += 1; top += 1; \
             begins[top] = begin + half * b; sizes[top] = b ? size - half : half; begun[top] = 0; } } \
    return (number)0 + sums[0]; }
  PAIRWISE_(r, real)
  PAIRWISE_(f, float)
#undef PAIRWISE_
};
struct R {
  // --- PCG64: state (high, low), increment (high, low), whether half a word is kept, and that half
  F_ u64 high(u64 a, u64 b) {
#ifdef VECENV_GPU
    return __umul64hi(a, b);
#else
    return (u64)(((unsigned __int128)a * b) >> 64);
#endif
  }
  F_ void advance(u64* g) {
    const u64 mh = 0x2360ED051FC65DA4ULL, ml = 0x4385DF649FCCF645ULL;
    const u64 low = g[1] * ml, up = high(g[1], ml) + g[0] * ml + g[1] * mh, sum = low + g[3];
    g[0] = up + g[2] + (sum < low ? 1ULL : 0ULL); g[1] = sum; }
  F_ u64 word(u64* g) {
    advance(g);
    const u64 mixed = g[0] ^ g[1], turn = g[0] >> 58;
    return (mixed >> turn) | (mixed << ((64 - turn) & 63)); }
  F_ u64 half(u64* g) {
    if (g[4] != 0) { g[4] = 0; return g[5]; }
    const u64 x = word(g); g[4] = 1; g[5] = x >> 32; return x & 0xFFFFFFFFULL; }
  struct P { u64 value, constant; };
  F_ P mixed(u64 value, u64 constant, u64 factor) {
    const u64 low = 0xFFFFFFFFULL;
    value = (value ^ constant) & low; constant = (constant * factor) & low; value = (value * constant) & low;
    return P{value ^ (value >> 16), constant}; }
  F_ void seed(u64* g, i64 from) {
    const u64 low = 0xFFFFFFFFULL, n = (u64)from; u64 pool[4], x[8], c = 0x43B0D7E5ULL, f = 0x931E8875ULL;
    for (int k = 0; k < 4; ++k) { const P p = mixed(k == 0 ? n & low : k == 1 ? n >> 32 : 0, c, f); pool[k] = p.value; c = p.constant; }
    for (int s = 0; s < 4; ++s) for (int t = 0; t < 4; ++t) if (s != t) {
      const P p = mixed(pool[s], c, f); c = p.constant;
      const u64 r = (0xCA01F9DDULL * pool[t] - 0x4973F715ULL * p.value) & low; pool[t] = r ^ (r >> 16); }
    c = 0x8B51F9DDULL; f = 0x58F38DEDULL;
    for (int k = 0; k < 8; ++k) { const P p = mixed(pool[k & 3], c, f); x[k] = p.value; c = p.constant; }
    const u64 start = x[2] | (x[3] << 32), stream = x[6] | (x[7] << 32);
    g[2] = ((x[4] | (x[5] << 32)) << 1) | (stream >> 63); g[3] = (stream << 1) | 1;
    const u64 sum = g[3] + start; g[0] = g[2] + (x[0] | (x[1] << 32)) + (sum < start ? 1 : 0); g[1] = sum;
    advance(g); g[4] = 0; g[5] = 0; }
  // --- one number
#ifdef VECENV_FAST
  F_ real random(u64* g) { return (real)(int)(word(g) >> 40) * (real)(1.0 / 16777216.0); }
#else
  F_ real random(u64* g) { return (real)(word(g) >> 11) * (1.0 / 9007199254740992.0); }
#endif
  F_ real uniform(u64* g, real low, real high) { EXACT return low + (high - low) * random(g); }
  F_ u64 up_to(u64* g, u64 largest) {
    const u64 low = 0xFFFFFFFFULL, all = 0xFFFFFFFFFFFFFFFFULL, count = largest + 1;
    if (largest == 0) return 0;
    if (largest == low) return half(g);
    if (largest < low) {
      u64 scaled = half(g) * count, rest = scaled & low;
      if (rest < count) {
        const u64 threshold = (low - largest) % count;
        while (rest < threshold) { scaled = half(g) * count; rest = scaled & low; } }
      return scaled >> 32; }
    if (largest == all) return word(g);
    u64 x = word(g), up = high(x, count), rest = x * count;
    if (rest < count) {
      const u64 threshold = (all - largest) % count;
      while (rest < threshold) { x = word(g); up = high(x, count); rest = x * count; } }
    return up; }
  F_ i64 between(u64* g, i64 low, i64 high) { return (i64)((u64)low + up_to(g, (u64)high - (u64)low - 1ULL)); }
  F_ i64 interval(u64* g, u64 largest) {
    u64 mask = largest; for (int s = 0; s < 5; ++s) mask |= mask >> (1 << s);
    u64 x = half(g) & mask; while (x > largest) x = half(g) & mask; return (i64)x; }
  F_ i64 weighted(u64* g, const real* p, i64 n, i64 s) { EXACT
    real total = 0, reached = 0; for (i64 k = 0; k < n; ++k) total += p[k * s];
    const real drawn = random(g);
    for (i64 k = 0; k < n; ++k) { reached += p[k * s]; if (reached / total > drawn) return k; }
    return n; }
  // --- samples without replacement
  F_ bool among(i64 value, const i64* p, i64 s, i64 count) {
    for (i64 k = 0; k < count; ++k) if (p[k * s] == value) return true;
    return false; }
  F_ void sample(u64* g, i64 n, i64* p, i64 s, i64 size) {
    if (n > 10000 && size > n / 50) {
      const i64 first = n - size;
      for (i64 k = size - 1; k >= 0; --k) p[k * s] = (i64)up_to(g, (u64)(first + k));
      for (i64 k = 0; k < size; ++k) {
        i64 wanted = p[k * s];
        for (i64 turn = k + 1; turn < size; ++turn) if (p[turn * s] == wanted) wanted = first + turn;
        p[k * s] = wanted; }
      return; }
    for (i64 k = 0; k < size; ++k) {
      const i64 drawn = (i64)up_to(g, (u64)(n - size + k)); p[k * s] = among(drawn, p, s, k) ? n - size + k : drawn; }
    for (i64 last = size - 1; last > 0; --last) {
      const i64 other = (i64)up_to(g, (u64)last), kept = p[other * s]; p[other * s] = p[last * s]; p[last * s] = kept; } }
  F_ void sample_weighted(u64* g, const real* w, i64 n, i64 ws, i64* p, i64 s, i64 size) { EXACT
    i64 found = 0;
    while (found < size) {
      const i64 known = found; real total = 0;
      for (i64 k = 0; k < n; ++k) total += among(k, p, s, known) ? 0 : w[k * ws];
      if (!(total > 0)) return;
      for (i64 turn = known; turn < size; ++turn) {
        const real drawn = random(g); real reached = 0; i64 k = 0;
        while (k < n - 1) { reached += among(k, p, s, known) ? 0 : w[k * ws]; if (reached / total > drawn) break; k += 1; }
        if (!among(k, p, s, found)) { p[found * s] = k; found += 1; } } } }
  // DISTRIBUTIONS
};
