  // --- NumPy's distributions; every operation in its order, because a rounding decides whether a number is rejected
  F_ real standard_normal(u64* g) { EXACT
    static const u64 bounds[] = {NORMAL_BOUNDS}; static const real widths[] = {NORMAL_WIDTHS};
    static const real heights[] = {NORMAL_HEIGHTS};
    while (true) {
      u64 x = word(g); const int layer = (int)(x & 0xFF); x >>= 8;
      const u64 place = (x >> 1) & 0x000FFFFFFFFFFFFFULL;
      real z = (real)place * widths[layer];
      if (x & 1) z = -z;
      if (place < bounds[layer]) return z;
      if (layer == 0) {
        while (true) {
          const real beyond = -((real)NORMAL_INVERSE) * U::log1p_(-random(g)), height = -U::log1p_(-random(g));
          if (height + height > beyond * beyond)
            return ((place >> 8) & 1) ? -((real)NORMAL_EDGE + beyond) : (real)NORMAL_EDGE + beyond; } }
      else if ((heights[layer - 1] - heights[layer]) * random(g) + heights[layer] < U::exp_((real)-0.5 * z * z)) return z; } }
  F_ real normal(u64* g, real loc, real scale) { EXACT return loc + scale * standard_normal(g); }
  F_ real standard_exponential(u64* g) { EXACT
    static const u64 bounds[] = {EXPONENTIAL_BOUNDS}; static const real widths[] = {EXPONENTIAL_WIDTHS};
    static const real heights[] = {EXPONENTIAL_HEIGHTS};
    while (true) {
      const u64 x = word(g) >> 3; const int layer = (int)(x & 0xFF); const u64 place = x >> 8;
      const real z = (real)place * widths[layer];
      if (place < bounds[layer]) return z;
      if (layer == 0) return (real)EXPONENTIAL_EDGE - U::log1p_(-random(g));
      if ((heights[layer - 1] - heights[layer]) * random(g) + heights[layer] < U::exp_(-z)) return z; } }
  F_ real exponential(u64* g, real scale) { EXACT return scale * standard_exponential(g); }
  F_ real log_drawn(real x) { return x > 0 ? U::log_(x) : -U::inf(); }
  F_ real log_gamma(real x) { EXACT
    static const real stirling[] = {STIRLING};
    if (x == 1 || x == 2) return 0;
    const i64 above = x < 7 ? (i64)(7 - x) : 0; real y = x + (real)above;
    const real inverse = (1 / y) * (1 / y); real series = stirling[9];
    for (int k = 8; k >= 0; --k) series = series * inverse + stirling[k];
    real value = series / y + (real)0.5 * (real)LOG_2_PI + (y - (real)0.5) * U::log_(y) - y;
    for (i64 k = 0; k < above; ++k) { y -= 1; value -= U::log_(y); }
    return value; }
  F_ i64 poisson(u64* g, real lam) { EXACT
    if (!(lam >= 10)) {
      i64 count = 0; if (lam == 0) return 0;
      const real limit = U::exp_(-lam); real product = random(g);
      while (product > limit) { product *= random(g); count += 1; }
      return count; }
    const real log_lam = U::log_(lam), b = (real)0.931 + (real)2.53 * U::sqrt_(lam), a = (real)-0.059 + (real)0.02483 * b;
    const real alpha = U::log_((real)1.1239 + (real)1.1328 / (b - (real)3.4)), sure = (real)0.9277 - (real)3.6224 / (b - 2);
    while (true) {
      const real u = random(g) - (real)0.5, v = random(g), rim = (real)0.5 - U::abs_f(u);
      const i64 count = (i64)U::floor_((2 * a / rim + b) * u + lam + (real)0.43);
      if (rim >= (real)0.07 && v <= sure) return count;
      if (count < 0 || (rim < (real)0.013 && v > rim)) continue;
      if (log_drawn(v) + alpha - U::log_(a / (rim * rim) + b) <= -lam + (real)count * log_lam - log_gamma((real)(count + 1)))
        return count; } }
  F_ i64 geometric(u64* g, real p) { EXACT
    if (p < (real)0.3333333333333333) {
      const real trials = U::ceil_(-standard_exponential(g) / U::log1p_(-p));
      return trials < (real)9.223372036854776e18 ? (i64)trials : 9223372036854775807LL; }
    const real drawn = random(g); real chance = p, reached = p; i64 count = 1;
    while (drawn > reached && chance > 0) { chance *= 1 - p; reached += chance; count += 1; }
    return count; }
  F_ i64 binomial_few(u64* g, i64 n, real p) { EXACT
    const real q = 1 - p, mean = (real)n * p, none = U::exp_((real)n * (EXACT_FOR_SMALL_P ? U::log1p_(-p) : U::log_(q)));
    const i64 bound = (i64)U::min_f((real)n, mean + 10 * U::sqrt_(mean * q + 1));
    i64 count = 0; real chance = none, left = random(g);
    while (left > chance) {
      count += 1;
      if (count > bound) { count = 0; chance = none; left = random(g); }
      else { left -= chance; chance = ((real)(n - count + 1) * p * chance) / ((real)count * q); } }
    return count; }
  F_ real chance_ratio(i64 n, real p, real q, i64 mode, i64 y) { EXACT
    const real s = p / q, a = s * (real)(n + 1); real ratio = 1;
    for (i64 k = mode + 1; k < y + 1; ++k) ratio *= a / (real)k - s;
    for (i64 k = y + 1; k < mode + 1; ++k) ratio /= a / (real)k - s;
    return ratio; }
  F_ real correction(real x) { EXACT
    const real square = x * x;
    return (13680 - (462 - (132 - (99 - 140 / square) / square) / square) / square) / x / 166320; }
  F_ bool is_below(i64 n, real p, real q, i64 mode, i64 y, real log_v) { EXACT
    const i64 k = U::abs_i(y - mode); const real variance = (real)n * p * q, d = (real)k;
    const real width = (d / variance) * ((d * (d / 3 + (real)0.625) + (real)0.16666666666666666) / variance + (real)0.5);
    const real normal_part = (real)(-k * k) / (2 * variance);
    if (log_v < normal_part - width) return true;
    if (log_v > normal_part + width) return false;
    const real x = (real)(y + 1), f = (real)(mode + 1), z = (real)(n + 1 - mode), w = (real)(n - y + 1);
    real bound = ((real)mode + (real)0.5) * U::log_(f / x) + ((real)(n - mode) + (real)0.5) * U::log_(z / w);
    bound += (real)(y - mode) * U::log_(w * p / (x * q));
    return !(log_v > bound + correction(f) + correction(z) + correction(x) + correction(w)); }
  F_ i64 binomial_many(u64* g, i64 n, real p) { EXACT
    const real q = 1 - p, variance = (real)n * p * q, mode_at = (real)n * p + p; const i64 mode = (i64)U::floor_(mode_at);
    const real p1 = U::floor_((real)2.195 * U::sqrt_(variance) - (real)4.6 * q) + (real)0.5, middle = (real)mode + (real)0.5;
    const real left = middle - p1, right = middle + p1, c = (real)0.134 + (real)20.5 / ((real)15.3 + (real)mode);
    real slope = (mode_at - left) / (mode_at - left * p); const real lambda_left = slope * (1 + slope / 2);
    slope = (right - mode_at) / (right * q); const real lambda_right = slope * (1 + slope / 2);
    const real p2 = p1 * (1 + 2 * c), p3 = p2 + c / lambda_left, p4 = p3 + c / lambda_right;
    while (true) {
      const real u = random(g) * p4; real v = random(g); i64 y;
      if (!(u > p1)) return (i64)U::floor_(middle - p1 * v + u);
      if (u <= p2) {
        const real x = left + (u - p1) / c; v = v * c + 1 - U::abs_f((real)mode - x + (real)0.5) / p1;
        if (v > 1) continue;
        y = (i64)U::floor_(x); }
      else if (v == 0) continue;
      else if (u <= p3) {
        y = (i64)U::floor_(left + U::log_(v) / lambda_left); if (y < 0) continue;
        v = v * (u - p2) * lambda_left; }
      else {
        y = (i64)U::floor_(right - U::log_(v) / lambda_right); if (y > n) continue;
        v = v * (u - p3) * lambda_right; }
      const i64 distance = U::abs_i(y - mode);
      if (distance <= 20 || (real)distance >= variance / 2 - 1) { if (!(v > chance_ratio(n, p, q, mode, y))) return y; }
      else if (is_below(n, p, q, mode, y, log_drawn(v))) return y; } }
  F_ i64 successes(u64* g, i64 n, real p) { return p * (real)n <= 30 ? binomial_few(g, n, p) : binomial_many(g, n, p); }
  F_ i64 binomial(u64* g, i64 n, real p) {
    if (n == 0 || p == 0) return 0;
    return p <= (real)0.5 ? successes(g, n, p) : n - successes(g, n, 1 - p); }
