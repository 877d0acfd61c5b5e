//! Vectors of eight numbers behind one trait: an AVX2 register, or a plain array.
//!
//! Both give the same results if both fuse the multiply-add.
//!
//! # Alternatives considered
//!
//! Leaving vectorisation to the compiler was rejected: it depends on details of the surrounding
//! code, and the loss is a factor of four.

use half::{bf16, f16};

/// Number of lanes. It is part of the definition of the results, the same on every machine.
pub(super) const LANES8: usize = 8;

/// A vector of [`LANES8`] numbers.
pub(crate) trait Simd8: Copy {
    /// # Safety
    /// For all functions: the processor must have the instructions that the implementation names.
    /// Pointers must be valid for the elements that are read or written (all lanes, unless stated
    /// otherwise). They need no alignment.
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// Loads numbers of half precision.
    unsafe fn load_f16(from: *const f16) -> Self;
    /// Loads numbers of 16 bits, the upper half of those in single precision.
    unsafe fn load_bf16(from: *const bf16) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Returns `a * b + self`.
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self;
    unsafe fn times(self, other: Self) -> Self;
    /// Prefetches the memory at the address, which need not exist, into the caches.
    #[inline(always)]
    unsafe fn prefetch(from: *const f32) {
        let _ = from;
    }
    /// Returns the sum of the lanes: adds the upper half to the lower half until one lane is left.
    unsafe fn total(self) -> f32;
    /// Returns the totals of four vectors.
    #[inline(always)]
    unsafe fn totals(v: [Self; 4]) -> [f32; 4] {
        // SAFETY: by the caller's promise.
        v.map(|v| unsafe { v.total() })
    }

    /// Loads the first `n < LANES8` numbers, and zeros in the other lanes.
    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize) -> Self {
        let mut v = [0.0; LANES8];
        for (i, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: the caller promises n elements.
            *v = unsafe { *from.add(i) };
        }
        // SAFETY: a whole array.
        unsafe { Self::load(v.as_ptr()) }
    }
}

/// Needs no special instructions. `FMA` is true if it fuses the multiply-add, which is slow where
/// no instruction does it.
#[derive(Clone, Copy)]
pub(super) struct Portable<const FMA: bool>([f32; LANES8]);

// SAFETY of the bodies: they need only the promises that the trait requires.
#[allow(clippy::undocumented_unsafe_blocks)]
impl<const FMA: bool> Simd8 for Portable<FMA> {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Portable([x; LANES8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Portable(unsafe { from.cast::<[f32; LANES8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        Portable(unsafe { from.cast::<[f16; LANES8]>().read_unaligned() }.map(f16::to_f32))
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        Portable(unsafe { from.cast::<[bf16; LANES8]>().read_unaligned() }.map(bf16::to_f32))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; LANES8]>().write_unaligned(self.0) }
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
    unsafe fn times(self, other: Self) -> Self {
        Portable(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }

    #[inline(always)]
    unsafe fn total(self) -> f32 {
        let v = self.0;
        let four = [v[0] + v[4], v[1] + v[5], v[2] + v[6], v[3] + v[7]];
        (four[0] + four[2]) + (four[1] + four[3])
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::model::running::kernels::simd8::{LANES8, Simd8, bf16, f16};
    use std::arch::x86_64::*;

    /// Needs AVX2, FMA and F16C.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(__m256);

    const _: () = assert!(size_of::<Avx2>() == LANES8 * size_of::<f32>());

    // SAFETY of the bodies: they need only the promises that the trait requires.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Simd8 for Avx2 {
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            Avx2(unsafe { _mm256_set1_ps(x) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Avx2(unsafe { _mm256_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn load_f16(from: *const f16) -> Self {
            Avx2(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) })
        }

        #[inline(always)]
        unsafe fn load_bf16(from: *const bf16) -> Self {
            unsafe {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                Avx2(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)))
            }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
            Avx2(unsafe { _mm256_fmadd_ps(a.0, b.0, self.0) })
        }

        #[inline(always)]
        unsafe fn times(self, other: Self) -> Self {
            Avx2(unsafe { _mm256_mul_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn prefetch(from: *const f32) {
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
        }

        #[inline(always)]
        unsafe fn total(self) -> f32 {
            unsafe {
                let four = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
            }
        }

        // The additions of `total`, for four vectors at once.
        #[inline(always)]
        unsafe fn totals([a, b, c, d]: [Self; 4]) -> [f32; 4] {
            unsafe {
                let halves = |a: __m256, b| {
                    _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b))
                };
                let (ab, cd) = (halves(a.0, b.0), halves(c.0, d.0));
                let quarters =
                    _mm256_add_ps(_mm256_shuffle_ps::<0x44>(ab, cd), _mm256_shuffle_ps::<0xee>(ab, cd));
                // In each half: 0 and 1 of the first pair, 2 and 3 of the second.
                let (even, odd) = (
                    _mm256_shuffle_ps::<0x88>(quarters, quarters),
                    _mm256_shuffle_ps::<0xdd>(quarters, quarters),
                );
                let sums = _mm256_add_ps(even, odd);
                let (low, high) = (_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
                let mut out = [0.0; 4];
                // The low half holds a and c, the high half b and d.
                _mm_storeu_ps(out.as_mut_ptr(), _mm_unpacklo_ps(low, high));
                out
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::Avx2;

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_vector_give_the_same_bits() {
        if !super::super::simd16::has_avx2() {
            return;
        }
        let x: Vec<f32> = (0..24).map(|i| (i as f32 * 0.731).sin()).collect();
        // SAFETY: the caller checks for AVX2, and all slices are long enough.
        unsafe fn run<V: Simd8>(x: &[f32]) -> ([f32; 9], f32) {
            let mut out = [0.0; 9];
            unsafe {
                let v = V::load(x.as_ptr()).multiply_add(V::load(x[8..].as_ptr()), V::splat(x[3]));
                let v = v.times(V::load(x[2..].as_ptr()));
                let v = v.multiply_add(V::splat(x[5]), V::load_part(x[16..].as_ptr(), 5));
                v.store(out.as_mut_ptr());
                (out, v.total())
            }
        }
        // SAFETY: as above.
        unsafe { assert_eq!(run::<Avx2>(&x), run::<Portable<true>>(&x)) }
        // SAFETY: as above.
        unsafe {
            let v = [0, 3, 7, 16].map(|at| Avx2::load(x[at..].as_ptr()));
            assert_eq!(Avx2::totals(v), v.map(|v| v.total()));
        }
    }
}
