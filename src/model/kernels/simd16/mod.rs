//! Sixteen numbers at once, and integers: one register where the processor has such, two or an array elsewhere.
//!
//! All kinds give the same bits: sums of integer products are exact, and the rest is element by element, as far
//! as all fuse the multiply-add; sums across a vector have an order of their own ([`Simd16::total`]). The products that
//! define a forward in single precision have eight lanes ([`super::vector`]), for that order is part of the results. What multiplies 8-bit numbers takes one side without sign (`vpdpbusd`), so weights have 128
//! added to them, and 128 times the sum of the activations is taken off the result. Rejected: weights with a sign
//! and activations without, whose correction is a number for each weight block and output instead of one
//! for each block of a row.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(super) use {avx2::Avx2, avx512::Avx512};

pub(super) use portable::Portable;

/// How many numbers there are.
pub(super) const LANES16: usize = 16;

/// A vector of [`LANES16`] numbers.
pub(crate) trait Simd16: Copy {
    /// Whether there are registers for 24 vectors of sums and what they are made of, not for twelve.
    const HAS_32_REGISTERS: bool;
    /// # Safety
    /// For all functions: the processor must have the instructions that the implementation names, and
    /// pointers must be good for as many elements as are read or written (all lanes, if not said
    /// otherwise). They need no alignment.
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// The first `n`, or all if there are more, and `rest` in the lanes behind them.
    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize, rest: f32) -> Self {
        let mut v = [rest; LANES16];
        // SAFETY: the caller promises n elements; and a whole array.
        unsafe {
            if n >= LANES16 {
                return Self::load(from);
            }
            std::ptr::copy_nonoverlapping(from, v.as_mut_ptr(), n);
            Self::load(v.as_ptr())
        }
    }
    /// The first `n`, or all if there are more.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, n: usize) {
        let mut v = [0.0; LANES16];
        // SAFETY: a whole array; and the caller promises room for n elements.
        unsafe {
            if n >= LANES16 {
                return self.store(to);
            }
            self.store(v.as_mut_ptr());
            std::ptr::copy_nonoverlapping(v.as_ptr(), to, n);
        }
    }
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    unsafe fn div(self, b: Self) -> Self;
    /// The larger of each two, of `self` where one of them is no number.
    unsafe fn max(self, b: Self) -> Self;
    /// [`exp`](crate::numeric::exp) of each, with the same bits.
    unsafe fn exp(self) -> Self;
    /// The largest lane; if any is no number, it may be any.
    #[inline(always)]
    unsafe fn reduce_max(self) -> f32 {
        // SAFETY: by the caller's promise.
        unsafe { self.reduce(|a, b| if b > a { b } else { a }) }
    }
    /// The sum of the lanes: halves onto each other until one is left.
    #[inline(always)]
    unsafe fn reduce_sum(self) -> f32 {
        // SAFETY: by the caller's promise.
        unsafe { self.reduce(|a, b| a + b) }
    }
    /// Halves onto each other until one is left.
    #[inline(always)]
    unsafe fn reduce(self, put: impl Fn(f32, f32) -> f32) -> f32 {
        let mut v = [0.0; LANES16];
        // SAFETY: a whole array.
        unsafe { self.store(v.as_mut_ptr()) };
        let mut half = LANES16 / 2;
        while half > 0 {
            for i in 0..half {
                v[i] = put(v[i], v[i + half]);
            }
            half /= 2;
        }
        v[0]
    }
    /// `a * b + self`.
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self;
    /// Sixteen integers.
    type Integers: Copy;
    /// 64 bytes.
    type Bytes: Copy;
    unsafe fn integers(x: i32) -> Self::Integers;
    unsafe fn bytes(from: *const u8) -> Self::Bytes;
    /// The lower four bits of each byte.
    unsafe fn low(b: Self::Bytes) -> Self::Bytes;
    /// The upper four bits of each byte.
    unsafe fn high(b: Self::Bytes) -> Self::Bytes;
    /// Bits 2k and 2k + 1 of each byte, k below 4, as its bits 4 and 5.
    unsafe fn upper(b: Self::Bytes, k: usize) -> Self::Bytes;
    unsafe fn either(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Adds to each integer the products of its four bytes of `w`, each below 64, with the four bytes of `x`, which have a sign.
    unsafe fn dot(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers;
    unsafe fn floats(x: Self::Integers) -> Self;
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
fn scale_and_inverse(largest: u32) -> (f32, f32) {
    let largest = f32::from_bits(largest);
    let inverse = LARGEST / largest;
    (
        if inverse.is_finite() { inverse } else { 0.0 },
        if largest.is_finite() { largest / LARGEST } else { f32::NAN },
    )
}

/// [`Simd16::MANY`] of the vectors that [`run`] works with.
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
    unsafe fn with<V: Simd16>(self) -> T;
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
        } else if super::simd8::has_avx2() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exp::exp;

    /// Everything but the products, of numbers among which are those that are none or have no end.
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
        // No numbers differ in bits that mean nothing.
        out.into_iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
    }

    #[test]
    fn all_kinds_do_the_same() {
        let mut x: Vec<f32> = (0..400).map(|i| ((i * i) as f32 * 0.731).sin() * 100.0).collect();
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -87.0, -87.1, 88.0, 88.1, -0.0, 0.0, 1e-42];
        x.extend(odd);
        // SAFETY: nothing special is needed, and for the others it is checked.
        unsafe {
            let (fused, plain) = (all::<Portable<true>>(&x), all::<Portable<false>>(&x));
            assert_ne!(fused, plain, "fused products are others");
            #[cfg(target_arch = "x86_64")]
            {
                if super::super::simd8::has_avx2() {
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
        impl WideWork<[f32; 3]> for Sums<'_> {
            #[inline(always)]
            unsafe fn with<V: Simd16>(self) -> [f32; 3] {
                // SAFETY: by the caller's promise, and as many elements as there are.
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
