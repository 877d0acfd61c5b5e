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
mod portable;

#[cfg(target_arch = "x86_64")]
pub(super) use {avx2::Avx2, avx512::Avx512};

pub(super) use portable::Portable;

use half::f16;

/// Number of lanes.
pub(super) const LANES16: usize = 16;

/// A vector of [`LANES16`] numbers.
pub(crate) trait Simd16: Copy {
    /// True if the registers hold 24 vectors of sums and their operands; otherwise they hold
    /// twelve.
    const HAS_32_REGISTERS: bool;
    /// The numbers of rows that a tile of an integer product may have, from 1 on. Each up to
    /// eight is compiled for each format of weights, and the others for those of bytes.
    const TILE_ROWS: &'static [usize];
    /// # Safety
    /// For all functions: the processor must have the instructions that the implementation names.
    /// Pointers must be valid for the elements that are read or written (all lanes, unless stated
    /// otherwise). They need no alignment.
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// Loads numbers of half precision.
    unsafe fn load_half(from: *const f16) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Loads the first `n` lanes, at most all, and puts `rest` in the others.
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
    /// Stores the first `n` lanes, at most all.
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
    /// Returns the larger of each two, and that of `self` where one of them is NaN.
    unsafe fn max(self, b: Self) -> Self;
    /// Returns [`exp`](crate::exp::exp) of each lane, with the same bits.
    unsafe fn exp(self) -> Self;
    /// Returns the largest lane; if any is NaN, the result may be any lane.
    #[inline(always)]
    unsafe fn reduce_max(self) -> f32 {
        // SAFETY: by the caller's promise.
        unsafe { self.reduce(|a, b| if b > a { b } else { a }) }
    }
    /// Returns the sum of the lanes: adds the upper half to the lower half until one lane is left.
    #[inline(always)]
    unsafe fn reduce_sum(self) -> f32 {
        // SAFETY: by the caller's promise.
        unsafe { self.reduce(|a, b| a + b) }
    }
    /// Combines the upper half with the lower half until one lane is left.
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
    /// Returns `a * b + self`.
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self;
    /// Sixteen integers.
    type Integers: Copy;
    /// 64 bytes.
    type Bytes: Copy;
    unsafe fn integers(x: i32) -> Self::Integers;
    unsafe fn bytes(from: *const u8) -> Self::Bytes;
    /// Returns the `count` bits of each byte from bit `from` on, as bits from `to` on.
    unsafe fn field(b: Self::Bytes, from: usize, count: u32, to: usize) -> Self::Bytes;
    /// Returns the entry of the table for each byte, which is below 16.
    unsafe fn lookup(b: Self::Bytes, table: &[u8; 16]) -> Self::Bytes;
    unsafe fn either(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Adds to each integer the products of its four bytes of `w`, each below 64, with the four
    /// signed bytes of `x`.
    unsafe fn dot(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers;
    /// Adds to each integer the products of its four bytes of `w`, which have 128 added to them,
    /// with the four signed bytes of `x`. The sums must begin with
    /// [`zero_of_bytes`](Self::zero_of_bytes).
    unsafe fn dot_bytes(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers;
    /// Returns the start of sums for [`dot_bytes`](Self::dot_bytes). `correction` is -128 times the
    /// sum of all activations that follow.
    unsafe fn zero_of_bytes(correction: i32) -> Self::Integers;
    unsafe fn floats(x: Self::Integers) -> Self;
    /// Loads numbers of half precision.
    unsafe fn load_f16(from: *const u16) -> Self;
    /// Loads bytes without sign.
    unsafe fn load_u8(from: *const u8) -> Self;
    /// Loads bytes with sign.
    unsafe fn load_i8(from: *const i8) -> Self;
    /// Prefetches the memory at the address, which need not exist, into the caches.
    #[inline(always)]
    unsafe fn prefetch(from: *const i8) {
        let _ = from;
    }
    /// Rounds 32 numbers to integers from -127 to 127, so that the largest becomes one of the two.
    /// Returns the scale of the integers and their sum. Subnormal blocks round to zero. If a number
    /// is infinite or NaN, the scale is NaN and the other results have no meaning.
    unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32);
}

/// The largest rounded number.
const LARGEST: f32 = i8::MAX as f32;

/// Returns the factors that round 32 numbers and that undo it. `largest` holds the bits of the
/// largest number without sign. Without signs, numbers are in the order of their bits; infinity and
/// NaN are above all others.
#[inline(always)]
fn scale_and_inverse(largest: u32) -> (f32, f32) {
    let largest = f32::from_bits(largest);
    let inverse = LARGEST / largest;
    (
        if inverse.is_finite() { inverse } else { 0.0 },
        if largest.is_finite() { largest / LARGEST } else { f32::NAN },
    )
}

/// Returns [`Simd16::HAS_32_REGISTERS`] of the vectors that [`run`] works with.
pub(super) fn has_32_registers() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_avx512();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
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
        } else if super::simd8::has_avx2() {
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
                if super::super::simd8::has_avx2() {
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
