//! Sixteen numbers at once, and integers: one register where the processor has such, two or an array elsewhere.
//!
//! All kinds give the same bits: sums of integer products are exact, and the rest is element by element, as far
//! as all fuse the multiply-add. What sums across a vector has eight lanes ([`super::vector`]), for that order is
//! part of the results. What multiplies 8-bit numbers takes one side without sign (`vpdpbusd`), so weights have 128
//! added to them, and 128 times the sum of the activations is taken off the result. Rejected: weights with a sign
//! and activations without, whose correction is a number for each weight block and output instead of one
//! for each block of a row.

/// How many numbers there are.
pub(super) const WIDE: usize = 16;

/// A vector of [`WIDE`] numbers.
pub(crate) trait Wide: Copy {
    /// Whether there are registers for 24 vectors of sums and what they are made of, not for twelve.
    const MANY: bool;
    /// # Safety
    /// For all functions: the processor must have the instructions that the implementation names, and
    /// pointers must be good for as many elements as are read or written (all lanes, if not said
    /// otherwise). They need no alignment.
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn times(self, b: Self) -> Self;
    /// `a * b + self`.
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self;
    /// Calls for the memory there, which need not exist, to be brought to the caches.
    #[inline(always)]
    unsafe fn prefetch(from: *const i8) {
        let _ = from;
    }
    /// Rounds 32 numbers to integers from -127 to 127, the largest to either; returns what to multiply them with and
    /// their sum. Of numbers so small that the inverse of the largest is infinite nothing is left; if one is
    /// infinite or none at all, the first result is none and the others mean nothing.
    unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32);
    /// For G groups of sixteen outputs and R rows the products of 32 activations and weights, added up: integers of
    /// at most 2^19, so single precision holds them exactly. `x` points to the 32 activations of each row, -127 to
    /// 127, one row behind the other; `less` to a number for each row, -128 times the sum of these activations;
    /// `w` to the weights of each group, each with 128 added: 8 times four inputs, and of these the four
    /// weights of sixteen outputs.
    unsafe fn block_sums<const R: usize, const G: usize>(
        x: *const i8,
        less: *const i32,
        w: [*const u8; G],
    ) -> [[Self; R]; G];
}

/// The largest of rounded numbers.
const LARGEST: f32 = i8::MAX as f32;

/// What to multiply 32 numbers with to round them and to undo that. `largest` holds the bits of the largest without
/// sign. Without signs, numbers are in the order of their bits; what is infinite or no number is above all others.
#[inline(always)]
fn there_and_back(largest: u32) -> (f32, f32) {
    let largest = f32::from_bits(largest);
    let inverse = LARGEST / largest;
    (
        if inverse.is_finite() { inverse } else { 0.0 },
        if largest.is_finite() { largest / LARGEST } else { f32::NAN },
    )
}

/// Needs nothing; `FMA` says whether to fuse, which is slow where no instruction does it.
#[derive(Clone, Copy)]
pub(super) struct Portable<const FMA: bool>([f32; WIDE]);

// SAFETY of the bodies: only what the trait asks of the caller.
#[allow(clippy::undocumented_unsafe_blocks)]
impl<const FMA: bool> Wide for Portable<FMA> {
    const MANY: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Portable([x; WIDE])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Portable(unsafe { from.cast::<[f32; WIDE]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; WIDE]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn times(self, b: Self) -> Self {
        let mut v = self.0;
        for (v, b) in v.iter_mut().zip(b.0) {
            *v *= b;
        }
        Portable(v)
    }

    #[inline(always)]
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
        let mut v = self.0;
        for (v, (a, b)) in v.iter_mut().zip(a.0.iter().zip(b.0)) {
            *v = if FMA { a.mul_add(b, *v) } else { a * b + *v };
        }
        Portable(v)
    }

    #[inline(always)]
    unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32) {
        let (x, out) = unsafe { (x.cast::<[f32; 32]>().read_unaligned(), &mut *out.cast::<[i8; 32]>()) };
        let (there, back) = there_and_back(x.iter().fold(0, |most, v| most.max(v.abs().to_bits())));
        let mut sum = 0;
        for (out, x) in out.iter_mut().zip(x) {
            *out = (x * there).round_ties_even() as i8;
            sum += i32::from(*out);
        }
        (back, sum)
    }

    #[inline(always)]
    unsafe fn block_sums<const R: usize, const G: usize>(
        x: *const i8,
        less: *const i32,
        w: [*const u8; G],
    ) -> [[Self; R]; G] {
        let mut out = [[Portable([0.0; WIDE]); R]; G];
        // Arrays of bytes need no more alignment than what is pointed to has.
        let x = unsafe { &*x.cast::<[[[i8; 4]; 8]; R]>() };
        for (out, w) in out.iter_mut().zip(w) {
            let w = unsafe { &*w.cast::<[[[u8; 4]; WIDE]; 8]>() };
            for (r, (out, x)) in out.iter_mut().zip(x).enumerate() {
                let mut sums = [unsafe { less.add(r).read_unaligned() }; WIDE];
                for (x, w) in x.iter().zip(w) {
                    for (sum, w) in sums.iter_mut().zip(w) {
                        for (x, w) in x.iter().zip(w) {
                            *sum += i32::from(*x) * i32::from(*w);
                        }
                    }
                }
                *out = Portable(sums.map(|sum| sum as f32));
            }
        }
        out
    }
}

// No closures in these, nor iterators over vectors: they would lack the instructions of the function they are
// inlined into.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{WIDE, Wide, there_and_back};
    use std::arch::x86_64::*;

    /// Needs AVX2 and FMA.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2([__m256; 2]);

    const _: () = assert!(size_of::<Avx2>() == WIDE * size_of::<f32>());

    // SAFETY of the bodies: only what the trait asks of the caller.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Wide for Avx2 {
        const MANY: bool = false;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            Avx2(unsafe { [_mm256_set1_ps(x); 2] })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Avx2(unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe {
                _mm256_storeu_ps(to, self.0[0]);
                _mm256_storeu_ps(to.add(8), self.0[1]);
            }
        }

        #[inline(always)]
        unsafe fn times(self, b: Self) -> Self {
            Avx2(unsafe { [_mm256_mul_ps(self.0[0], b.0[0]), _mm256_mul_ps(self.0[1], b.0[1])] })
        }

        #[inline(always)]
        unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
            Avx2(unsafe {
                [_mm256_fmadd_ps(a.0[0], b.0[0], self.0[0]), _mm256_fmadd_ps(a.0[1], b.0[1], self.0[1])]
            })
        }

        #[inline(always)]
        unsafe fn prefetch(from: *const i8) {
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from) }
        }

        #[allow(clippy::needless_range_loop)]
        #[inline(always)]
        unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32) {
            unsafe {
                let positive = _mm256_set1_epi32(i32::MAX);
                let mut v = [_mm256_setzero_ps(); 4];
                let mut largest = _mm256_setzero_si256();
                for i in 0..4 {
                    v[i] = _mm256_loadu_ps(x.add(8 * i));
                    largest =
                        _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(v[i]), positive));
                }
                let most =
                    _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256::<1>(largest));
                let most = _mm_max_epi32(most, _mm_shuffle_epi32::<0b01_00_11_10>(most));
                let most = _mm_max_epi32(most, _mm_shuffle_epi32::<0b10_11_00_01>(most));
                let (there, back) = there_and_back(_mm_cvtsi128_si32(most).cast_unsigned());
                let mut whole = [_mm256_setzero_si256(); 4];
                for i in 0..4 {
                    whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(there)));
                }
                // Packing works on halves; the permutation puts them in order again.
                let (a, b) = (_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3]));
                let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
                _mm256_storeu_si256(out.cast(), bytes);
                let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
                let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                let sum = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256::<1>(fours));
                let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
                let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum));
                (back, _mm_cvtsi128_si32(sum))
            }
        }

        #[allow(clippy::needless_range_loop)]
        #[inline(always)]
        unsafe fn block_sums<const R: usize, const G: usize>(
            x: *const i8,
            // Here the weights get back their sign: what sums up pairs of products without it has no room for them.
            _less: *const i32,
            w: [*const u8; G],
        ) -> [[Self; R]; G] {
            unsafe {
                let (sign, ones) = (_mm256_set1_epi8(i8::MIN), _mm256_set1_epi16(1));
                let mut sums = [[[_mm256_setzero_si256(); 2]; R]; G];
                for four in 0..8 {
                    let mut weights = [[_mm256_setzero_si256(); 2]; G];
                    let mut sizes = weights;
                    for g in 0..G {
                        for half in 0..2 {
                            let eight = w[g].add(four * 4 * WIDE + half * 2 * WIDE);
                            weights[g][half] = _mm256_xor_si256(_mm256_loadu_si256(eight.cast()), sign);
                            sizes[g][half] = _mm256_abs_epi8(weights[g][half]);
                        }
                    }
                    for r in 0..R {
                        let all = x.add(r * 32 + 4 * four).cast::<i32>().read_unaligned();
                        let all = _mm256_set1_epi32(all);
                        for g in 0..G {
                            for half in 0..2 {
                                // Two products are at most 2 * 128 * 127, which sixteen bits just hold.
                                let signed = _mm256_sign_epi8(all, weights[g][half]);
                                let pairs = _mm256_maddubs_epi16(sizes[g][half], signed);
                                let fours = _mm256_madd_epi16(pairs, ones);
                                sums[g][r][half] = _mm256_add_epi32(sums[g][r][half], fours);
                            }
                        }
                    }
                }
                let mut out = [[Avx2([_mm256_setzero_ps(); 2]); R]; G];
                for g in 0..G {
                    for r in 0..R {
                        for half in 0..2 {
                            out[g][r].0[half] = _mm256_cvtepi32_ps(sums[g][r][half]);
                        }
                    }
                }
                out
            }
        }
    }

    /// Needs the instructions of AVX-512 that [`super::run`] names.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(__m512);

    const _: () = assert!(size_of::<Avx512>() == WIDE * size_of::<f32>());

    // SAFETY of the bodies: only what the trait asks of the caller.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Wide for Avx512 {
        const MANY: bool = true;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            Avx512(unsafe { _mm512_set1_ps(x) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Avx512(unsafe { _mm512_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn times(self, b: Self) -> Self {
            Avx512(unsafe { _mm512_mul_ps(self.0, b.0) })
        }

        #[inline(always)]
        unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
            Avx512(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
        }

        #[inline(always)]
        unsafe fn prefetch(from: *const i8) {
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from) }
        }

        #[inline(always)]
        unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32) {
            unsafe {
                let (a, b) = (_mm512_loadu_ps(x), _mm512_loadu_ps(x.add(16)));
                let most = _mm512_max_epi32(
                    _mm512_castps_si512(_mm512_abs_ps(a)),
                    _mm512_castps_si512(_mm512_abs_ps(b)),
                );
                let (there, back) = there_and_back(_mm512_reduce_max_epi32(most).cast_unsigned());
                let there = _mm512_set1_ps(there);
                let a = _mm512_cvtps_epi32(_mm512_mul_ps(a, there));
                let b = _mm512_cvtps_epi32(_mm512_mul_ps(b, there));
                _mm_storeu_si128(out.cast(), _mm512_cvtepi32_epi8(a));
                _mm_storeu_si128(out.add(16).cast(), _mm512_cvtepi32_epi8(b));
                (back, _mm512_reduce_add_epi32(_mm512_add_epi32(a, b)))
            }
        }

        #[allow(clippy::needless_range_loop)]
        #[inline(always)]
        unsafe fn block_sums<const R: usize, const G: usize>(
            x: *const i8,
            less: *const i32,
            w: [*const u8; G],
        ) -> [[Self; R]; G] {
            unsafe {
                let mut sums = [[_mm512_setzero_si512(); R]; G];
                for g in 0..G {
                    for r in 0..R {
                        sums[g][r] = _mm512_set1_epi32(less.add(r).read_unaligned());
                    }
                }
                for four in 0..8 {
                    let mut weights = [_mm512_setzero_si512(); G];
                    for g in 0..G {
                        weights[g] = _mm512_loadu_si512(w[g].add(four * 4 * WIDE).cast());
                    }
                    for r in 0..R {
                        let all = _mm512_set1_epi32(x.add(r * 32 + 4 * four).cast::<i32>().read_unaligned());
                        for g in 0..G {
                            // The four products of each lane and the sum of before: no step of it can overflow.
                            sums[g][r] = _mm512_dpbusd_epi32(sums[g][r], weights[g], all);
                        }
                    }
                }
                let mut out = [[Avx512(_mm512_setzero_ps()); R]; G];
                for g in 0..G {
                    for r in 0..R {
                        out[g][r] = Avx512(_mm512_cvtepi32_ps(sums[g][r]));
                    }
                }
                out
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

/// [`Wide::MANY`] of the vectors that [`run`] works with.
pub(super) fn many() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_avx512();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether this processor has what `Avx512` needs; the answer is cached.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

/// Work that can be done with any kind of vector.
pub(super) trait WideWork<T = ()> {
    /// # Safety
    /// The processor must have the instructions of `V`. Mark the body `#[inline(always)]`.
    unsafe fn with<V: Wide>(self) -> T;
}

/// Does `work` with the best vectors of this processor.
#[inline]
pub(super) fn run<T>(work: impl WideWork<T>) -> T {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")]
        fn with_avx512<T>(work: impl WideWork<T>) -> T {
            // SAFETY: this function has these instructions.
            unsafe { work.with::<Avx512>() }
        }
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2<T>(work: impl WideWork<T>) -> T {
            // SAFETY: this function has these instructions.
            unsafe { work.with::<Avx2>() }
        }
        if has_avx512() {
            // SAFETY: just checked.
            unsafe { with_avx512(work) }
        } else if super::vector::has_avx2() {
            // SAFETY: just checked.
            unsafe { with_avx2(work) }
        } else {
            // SAFETY: nothing special is needed.
            unsafe { work.with::<Portable<false>>() }
        }
    }
    // On ARM a fused multiply-add is a basic instruction; elsewhere it may be a slow library call.
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: nothing special is needed.
    unsafe {
        work.with::<Portable<{ cfg!(target_arch = "aarch64") }>>()
    }
}
