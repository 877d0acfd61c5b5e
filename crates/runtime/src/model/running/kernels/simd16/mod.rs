//! Vectors of sixteen numbers, and integers, behind one trait: AVX-512, AVX2, or plain arrays.
//!
//! All kinds give the same bits if all fuse the multiply-add. Sums of integer products are exact,
//! and the rest is element by element. Sums across a vector have an order of their own
//! ([`Simd16::reduce_sum`]). The products that define a forward in single precision have eight
//! lanes ([`super::simd8`]), since that order is part of the results. The instruction that
//! multiplies 8-bit numbers takes one side without sign (`vpdpbusd`). So weights have 128 added to
//! them, and 128 times the sum of the activations is subtracted from the result.
//!
//! # Alternatives considered
//!
//! Weights with a sign and activations without were rejected. Their correction is a number for each
//! weight block and output, instead of one for each block of a row.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod operations;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(super) use {avx2::Avx2, avx512::Avx512};

pub(super) use operations::{LANES16, Simd16};
pub(super) use portable::Portable;

/// Returns [`Simd16::HAS_32_REGISTERS`] of the vectors that [`run`] works with.
pub(crate) fn has_32_registers() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_avx512();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Returns true if this processor has the instructions for `Avx2`, and those that convert halves;
/// the answer is cached.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

/// Returns true if this processor has the instructions for `Avx512`; the answer is cached.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

/// Work that can be done with any kind of vector.
pub(super) trait Simd16Work<T = ()> {
    /// # Safety
    /// The processor must have the instructions of `V`. Mark the body `#[inline(always)]`.
    unsafe fn with<V: Simd16>(self) -> T;
}

/// Does `work` with the widest vectors of this processor.
#[inline]
pub(super) fn run<T>(work: impl Simd16Work<T>) -> T {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn with_avx512<T>(work: impl Simd16Work<T>) -> T {
            // SAFETY: this function has these instructions.
            unsafe { work.with::<Avx512>() }
        }
        #[target_feature(enable = "avx2,fma,f16c")]
        fn with_avx2<T>(work: impl Simd16Work<T>) -> T {
            // SAFETY: this function has these instructions.
            unsafe { work.with::<Avx2>() }
        }
        if has_avx512() {
            // SAFETY: checked above.
            unsafe { with_avx512(work) }
        } else if has_avx2() {
            // SAFETY: checked above.
            unsafe { with_avx2(work) }
        } else {
            // SAFETY: no special instructions are needed.
            unsafe { work.with::<Portable<false>>() }
        }
    }
    // On ARM a fused multiply-add is a basic instruction; elsewhere it may be a slow library call.
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: no special instructions are needed.
    unsafe {
        work.with::<Portable<{ cfg!(target_arch = "aarch64") }>>()
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::exp::exp;

    /// Returns the results of all operations except the products, for numbers that include NaN and
    /// infinity.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    unsafe fn all<V: Simd16>(x: &[f32]) -> Vec<u32> {
        let mut out = Vec::new();
        for x in x.windows(2 * LANES16) {
            // SAFETY: whole vectors; and by the caller's promise.
            unsafe {
                let (a, b) = (V::load(x.as_ptr()), V::load(x[LANES16..].as_ptr()));
                let n = out.len() % (LANES16 + 1);
                let part = V::load_part(x.as_ptr(), n, 7.5);
                for v in [a.add(b), a.mul(b), a.div(b), a.max(b), a.multiply_add(a, b), a.exp(), part] {
                    let mut to = [0.0; LANES16];
                    v.store(to.as_mut_ptr());
                    out.extend(to);
                }
                let mut to = [1.5; LANES16];
                b.store_part(to.as_mut_ptr(), n);
                out.extend(to);
                out.push(a.reduce_sum());
                if x.iter().all(|x| !x.is_nan()) {
                    out.push(a.reduce_max());
                }
            }
        }
        // The bits of a NaN have no meaning.
        out.into_iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
    }

    /// Returns the numbers of all halves.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    unsafe fn halves<V: Simd16>() -> Vec<u32> {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut out = Vec::new();
        for x in all.chunks_exact(LANES16) {
            let mut to = [0.0f32; LANES16];
            // SAFETY: whole vectors; and by the caller's promise.
            unsafe { V::load_half(x.as_ptr()).store(to.as_mut_ptr()) };
            out.extend(to.map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }));
        }
        out
    }

    #[test]
    fn all_kinds_read_the_same_halves() {
        // SAFETY: nothing special is needed for the first kind; the others are checked.
        unsafe {
            let want = halves::<Portable<false>>();
            assert_eq!(want[0x3c01], (1.0 + 2f32.powi(-10)).to_bits());
            assert_eq!((want[0x0001], want[0xfbff]), (2f32.powi(-24).to_bits(), (-65504f32).to_bits()));
            #[cfg(target_arch = "x86_64")]
            {
                if has_avx2() {
                    assert!(want == halves::<Avx2>());
                }
                if has_avx512() {
                    assert!(want == halves::<Avx512>());
                }
            }
        }
    }

    #[test]
    fn all_kinds_do_the_same() {
        let mut x: Vec<f32> = (0..400).map(|i| ((i * i) as f32 * 0.731).sin() * 100.0).collect();
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -87.0, -87.1, 88.0, 88.1, -0.0, 0.0, 1e-42];
        x.extend(odd);
        // SAFETY: nothing special is needed for the first kind; the others are checked.
        unsafe {
            let (fused, plain) = (all::<Portable<true>>(&x), all::<Portable<false>>(&x));
            assert_ne!(fused, plain, "fused products are others");
            #[cfg(target_arch = "x86_64")]
            {
                if has_avx2() {
                    assert!(fused == all::<Avx2>(&x));
                }
                if has_avx512() {
                    assert!(fused == all::<Avx512>(&x));
                }
            }
        }
    }

    #[test]
    fn lanes_are_put_together_and_cut_off() {
        struct Sums<'a>(&'a [f32]);
        impl Simd16Work<[f32; 3]> for Sums<'_> {
            #[inline(always)]
            unsafe fn with<V: Simd16>(self) -> [f32; 3] {
                // SAFETY: by the caller's promise, and for the elements that exist.
                unsafe {
                    let v = V::load_part(self.0.as_ptr(), self.0.len(), -2.0);
                    let mut out = [9.0; 2 * LANES16];
                    v.store_part(out.as_mut_ptr(), self.0.len());
                    assert_eq!(&out[..self.0.len()], self.0);
                    assert!(out[self.0.len()..].iter().all(|v| *v == 9.0));
                    let mut e = [0.0; LANES16];
                    v.exp().store(e.as_mut_ptr());
                    [v.reduce_sum(), v.reduce_max(), e[0]]
                }
            }
        }
        for n in 1..=LANES16 {
            let x: Vec<f32> = (0..n).map(|i| i as f32 - 3.0).collect();
            let sum = x.iter().sum::<f32>() - 2.0 * (LANES16 - n) as f32;
            let most = if n < LANES16 { x[n - 1].max(-2.0) } else { x[n - 1] };
            assert_eq!(run(Sums(&x)), [sum, most, exp(-3.0)], "{n}");
        }
    }
}
