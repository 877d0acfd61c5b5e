//! Addresses of arrays: NumPy, torch, DLPack, and Python's own buffers.
//!
//! The only file with `unsafe` code. A [`Tensor`] is checked once: device, type of the elements,
//! shape, strides, alignment. Its rows then are ordinary slices, no two of the same memory.
//!
//! What the object reports is trusted: an interface with a wrong address is a fault of
//! that object. The object is kept alive meanwhile; its memory must not be resized by other threads.
//!
//! # Cost
//!
//! Some attributes of the object for each call, less than a microsecond.
//!
//! # Alternatives considered
//!
//! Keeping the address between calls was rejected: torch may move the memory of a tensor. The
//! buffer protocol alone was rejected: torch does not have it, and the stable interface of Python
//! 3.10 lacks it. NumPy's `__array_interface__` takes longer than a mask, `__array_struct__` does not.

use std::ffi::{c_char, c_int, c_void};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyMemoryView};

/// Type of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Int32,
    Float32,
    Float16,
    BFloat16,
}

impl Element {
    fn size(self) -> usize {
        match self {
            Element::Int32 | Element::Float32 => 4,
            Element::Float16 | Element::BFloat16 => 2,
        }
    }

    /// From the name that NumPy and torch have for it.
    fn of_name(name: &str) -> Option<Self> {
        match name {
            "int32" | "uint32" => Some(Element::Int32),
            "float32" => Some(Element::Float32),
            "float16" => Some(Element::Float16),
            "bfloat16" => Some(Element::BFloat16),
            _ => None,
        }
    }
}

/// Memory of one or two dimensions that an object of Python owns.
pub(crate) struct Tensor<'py> {
    name: &'static str,
    /// Keeps the memory alive.
    _owner: Bound<'py, PyAny>,
    address: usize,
    rows: usize,
    /// Elements of a row.
    columns: usize,
    /// Distance of the rows in bytes.
    stride: usize,
    element: Element,
}

/// What an object reports about its memory. Strides are in bytes.
struct Report<'py> {
    owner: Bound<'py, PyAny>,
    address: usize,
    element: Element,
    shape: Vec<usize>,
    strides: Option<Vec<isize>>,
    read_only: bool,
}

fn fault(name: &str, text: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{name}: {text}"))
}

fn unknown_type(name: &str, element: impl std::fmt::Display) -> PyErr {
    let expected = if name == "bitmask" { "int32" } else { "float32, float16 or bfloat16" };
    fault(name, format_args!("elements of type {element}; expected {expected}"))
}

impl<'py> Tensor<'py> {
    /// Looks up the memory of `object`, which errors call `name`.
    pub(crate) fn new(object: &Bound<'py, PyAny>, name: &'static str, writable: bool) -> PyResult<Self> {
        let report = report(object, name)?;
        if writable && report.read_only {
            return Err(fault(name, "the memory is read-only"));
        }
        let (rows, columns) = match *report.shape {
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            _ => {
                let dimensions = report.shape.len();
                return Err(fault(name, format_args!("{dimensions} dimensions; expected one or two")));
            }
        };
        let size = report.element.size();
        let width =
            columns.checked_mul(size).filter(|w| *w <= isize::MAX as usize / rows.max(1)).unwrap_or(0);
        let (mut stride, mut step) = (width as isize, size as isize);
        if let Some(strides) = &report.strides {
            if strides.len() != report.shape.len() {
                return Err(fault(name, "as many strides as dimensions are expected"));
            }
            step = strides[strides.len() - 1];
            stride = if strides.len() == 2 { strides[0] } else { stride };
        }
        if rows > 0 && columns > 1 && step != size as isize {
            return Err(fault(name, "the elements of a row are not contiguous"));
        }
        if rows > 1 && (stride < width as isize || width == 0) {
            return Err(fault(name, "the rows overlap or are in reverse order"));
        }
        let aligned =
            report.address.is_multiple_of(size) && (rows < 2 || (stride as usize).is_multiple_of(size));
        if !aligned || report.address == 0 && rows * columns > 0 {
            return Err(fault(name, "the memory is not aligned"));
        }
        let stride = if rows > 1 { stride as usize } else { width };
        let Report { owner, address, element, .. } = report;
        Ok(Tensor { name, _owner: owner, address, rows, columns, stride, element })
    }

    pub(crate) fn element(&self) -> Element {
        self.element
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// First address, and the one after the last.
    fn range(&self) -> (usize, usize) {
        let last = self.rows.saturating_sub(1) * self.stride;
        (self.address, self.address + last + self.columns * self.element.size())
    }

    /// True if both use some of the same memory, or could.
    pub(crate) fn overlaps(&self, other: &Tensor<'_>) -> bool {
        let ((start, end), (other_start, other_end)) = (self.range(), other.range());
        start < other_end && other_start < end
    }

    /// The row `index` of a bitmask that has at least `words` words in each.
    pub(crate) fn bitmask_row(&mut self, index: i64, words: usize) -> PyResult<&mut [u32]> {
        self.check_bitmask(words)?;
        let row = usize::try_from(index).ok().filter(|row| *row < self.rows);
        let row = row.ok_or_else(|| out_of_range(self.name, index, self.rows))?;
        // SAFETY: u32 has the size and alignment of the elements, any bits are a value, and the
        // exclusive borrow lets no other slice be made meanwhile.
        Ok(unsafe { self.slice(row) })
    }

    /// The rows of a bitmask that has at least `words` words in each.
    pub(crate) fn bitmask_rows(&self, words: usize) -> PyResult<Rows<'_, u32>> {
        self.check_bitmask(words)?;
        // SAFETY: u32 has the size and alignment of the elements, and any bits are a value.
        Ok(unsafe { self.slices() })
    }

    fn check_bitmask(&self, words: usize) -> PyResult<()> {
        if self.element != Element::Int32 {
            return Err(unknown_type(self.name, format_args!("{:?}", self.element)));
        }
        if self.columns < words {
            return Err(fault(
                self.name,
                format_args!("rows of {} words; the vocabulary needs {words}", self.columns),
            ));
        }
        Ok(())
    }

    /// The rows as numbers of four bytes; `None` if the elements have another size.
    pub(crate) fn words(&self) -> Option<Rows<'_, u32>> {
        // SAFETY: as above; the size is compared.
        (self.element.size() == 4).then(|| unsafe { self.slices() })
    }

    /// The rows as numbers of two bytes; `None` if the elements have another size.
    pub(crate) fn halves(&self) -> Option<Rows<'_, u16>> {
        // SAFETY: as above; the size is compared.
        (self.element.size() == 2).then(|| unsafe { self.slices() })
    }

    /// # Safety
    /// `T` must have the size of the elements, no larger alignment, and no invalid values.
    unsafe fn slices<T>(&self) -> Rows<'_, T> {
        // SAFETY: as for this function; each row is made once.
        let row = |i: usize| (self.columns > 0).then(|| unsafe { self.slice(i) });
        Rows { name: self.name, slices: (0..self.rows).map(row).collect() }
    }

    /// # Safety
    /// As for `slices`; `row` must be a row that no other slice is of.
    #[expect(clippy::mut_from_ref, reason = "the memory is Python's, not part of the tensor")]
    unsafe fn slice<T>(&self, row: usize) -> &mut [T] {
        // `new` checked that rows do not overlap and are aligned, so each row becomes one slice.
        // The owner, which `self` borrows, keeps the memory alive.
        let start = (self.address + row * self.stride) as *mut T;
        // SAFETY: by the above, and the caller's promises.
        unsafe { std::slice::from_raw_parts_mut(start, self.columns) }
    }
}

fn out_of_range(name: &str, index: i64, rows: usize) -> PyErr {
    fault(name, format_args!("row {index} is out of range: it has {rows} rows"))
}

/// The rows of a tensor, each of which can be taken once.
pub(crate) struct Rows<'a, T> {
    name: &'static str,
    slices: Vec<Option<&'a mut [T]>>,
}

impl<'a, T> Rows<'a, T> {
    /// Takes the row `index`.
    pub(crate) fn take(&mut self, index: i64) -> PyResult<&'a mut [T]> {
        let rows = self.slices.len();
        let slot = usize::try_from(index).ok().and_then(|index| self.slices.get_mut(index));
        let Some(slot) = slot else {
            return Err(out_of_range(self.name, index, rows));
        };
        slot.take().ok_or_else(|| fault(self.name, format_args!("row {index} would be written twice")))
    }
}

/// Asks an object for its memory, by the first interface that it has.
fn report<'py>(object: &Bound<'py, PyAny>, name: &'static str) -> PyResult<Report<'py>> {
    let py = object.py();
    if let Some(made) = object.getattr_opt(intern!(py, "__array_struct__"))? {
        return of_numpy(object, made, name);
    }
    if object.hasattr(intern!(py, "data_ptr"))? {
        return of_torch(object, name);
    }
    if object.hasattr(intern!(py, "__dlpack__"))? {
        return of_dlpack(object, name);
    }
    match PyMemoryView::from(object) {
        Ok(view) => of_memoryview(view.as_any(), name),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{name}: expected a NumPy array, a torch tensor, an object with __dlpack__ or a buffer, got {}",
            object.get_type().name()?
        ))),
    }
}

/// `PyArrayInterface` of NumPy's array interface.
#[repr(C)]
struct ArrayStruct {
    /// Always two.
    check: c_int,
    dimensions: c_int,
    kind: c_char,
    item_size: c_int,
    flags: c_int,
    shape: *const isize,
    /// In bytes.
    strides: *const isize,
    data: *mut c_void,
    description: *mut c_void,
}

/// Flags of [`ArrayStruct`].
const NATIVE_ORDER: c_int = 0x200;
const WRITEABLE: c_int = 0x400;

fn of_numpy<'py>(
    object: &Bound<'py, PyAny>,
    made: Bound<'py, PyAny>,
    name: &'static str,
) -> PyResult<Report<'py>> {
    let pointer = made.cast::<PyCapsule>()?.pointer_checked(None)?.cast::<ArrayStruct>();
    // SAFETY: this attribute is a capsule without a name that holds this structure, by the array
    // interface. It stays valid as long as the capsule, which the report owns.
    let array = unsafe { pointer.as_ref() };
    let dimensions = usize::try_from(array.dimensions).unwrap_or(0);
    if array.check != 2 || !(1..=2).contains(&dimensions) || array.shape.is_null() {
        return Err(fault(name, format_args!("{dimensions} dimensions; expected one or two")));
    }
    let element = match (array.kind as u8, array.item_size) {
        _ if array.flags & NATIVE_ORDER == 0 => None,
        (b'i' | b'u', 4) => Some(Element::Int32),
        (b'f', 4) => Some(Element::Float32),
        (b'f', 2) => Some(Element::Float16),
        // Types that NumPy does not have are known by name alone.
        (b'V', 2) if type_name(object)? == "bfloat16" => Some(Element::BFloat16),
        _ => None,
    };
    let Some(element) = element else {
        return Err(unknown_type(name, type_name(object)?));
    };
    // SAFETY: shape, and strides unless null, have one number for each dimension.
    let shape = unsafe { std::slice::from_raw_parts(array.shape, dimensions) };
    let strides = (!array.strides.is_null())
        .then(|| unsafe { std::slice::from_raw_parts(array.strides, dimensions) }.to_vec());
    Ok(Report {
        address: array.data as usize,
        element,
        shape: shape.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect(),
        strides,
        read_only: array.flags & WRITEABLE == 0,
        owner: made,
    })
}

/// NumPy's name of the type of an array's elements.
fn type_name(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.getattr(intern!(object.py(), "dtype"))?.str()?.to_string())
}

fn of_torch<'py>(object: &Bound<'py, PyAny>, name: &'static str) -> PyResult<Report<'py>> {
    let py = object.py();
    if !object.getattr(intern!(py, "is_cpu"))?.extract::<bool>()? {
        let device = object.getattr(intern!(py, "device"))?;
        return Err(fault(name, format_args!("the tensor is on {device}; expected cpu")));
    }
    let dtype = object.getattr(intern!(py, "dtype"))?.str()?.to_string();
    let Some(element) = Element::of_name(dtype.trim_start_matches("torch.")) else {
        return Err(unknown_type(name, dtype));
    };
    let strides: Vec<isize> = object.call_method0(intern!(py, "stride"))?.extract()?;
    let size = element.size() as isize;
    Ok(Report {
        owner: object.clone(),
        address: object.call_method0(intern!(py, "data_ptr"))?.extract()?,
        element,
        shape: object.getattr(intern!(py, "shape"))?.extract()?,
        strides: Some(strides.iter().map(|stride| stride.saturating_mul(size)).collect()),
        read_only: false,
    })
}

/// `DLTensor` of DLPack's C interface.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: c_int,
    device_id: c_int,
    dimensions: c_int,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// The device type of DLPack for the memory of the CPU.
const DL_CPU: c_int = 1;

fn of_dlpack<'py>(object: &Bound<'py, PyAny>, name: &'static str) -> PyResult<Report<'py>> {
    let (device, _): (c_int, c_int) = object.call_method0("__dlpack_device__")?.extract()?;
    if device != DL_CPU {
        return Err(fault(
            name,
            format_args!("the array is on device type {device} of DLPack; expected the CPU"),
        ));
    }
    let made = object.call_method0("__dlpack__")?;
    let capsule = made.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"dltensor"))?.cast::<DlTensor>();
    // SAFETY: a capsule of this name holds a `DLManagedTensor`, which begins with a `DLTensor`. It
    // is not consumed, so it stays valid as long as the capsule, which the report owns.
    let tensor = unsafe { pointer.as_ref() };
    let element = match (tensor.type_code, tensor.type_bits, tensor.type_lanes) {
        (0 | 1, 32, 1) => Element::Int32,
        (2, 32, 1) => Element::Float32,
        (2, 16, 1) => Element::Float16,
        (4, 16, 1) => Element::BFloat16,
        (code, bits, lanes) => {
            return Err(unknown_type(name, format_args!("{code}/{bits}x{lanes} of DLPack")));
        }
    };
    let dimensions = usize::try_from(tensor.dimensions).unwrap_or(0);
    if tensor.device_type != DL_CPU || !(1..=2).contains(&dimensions) || tensor.shape.is_null() {
        return Err(fault(name, format_args!("{dimensions} dimensions; expected one or two on the CPU")));
    }
    // SAFETY: shape, and strides unless null, have one number for each dimension.
    let shape = unsafe { std::slice::from_raw_parts(tensor.shape, dimensions) };
    let strides = (!tensor.strides.is_null())
        .then(|| unsafe { std::slice::from_raw_parts(tensor.strides, dimensions) });
    let size = element.size() as isize;
    Ok(Report {
        address: (tensor.data as usize).wrapping_add(tensor.byte_offset as usize),
        element,
        shape: shape.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect(),
        strides: strides.map(|all| all.iter().map(|&n| (n as isize).saturating_mul(size)).collect()),
        // NumPy refuses to export memory that is read-only.
        read_only: false,
        owner: made,
    })
}

/// A buffer of Python: bytearray, array, memoryview. Its address comes from `ctypes`, whose object
/// also keeps the buffer from being resized.
fn of_memoryview<'py>(view: &Bound<'py, PyAny>, name: &'static str) -> PyResult<Report<'py>> {
    let format: String = view.getattr("format")?.extract()?;
    let item_size: usize = view.getattr("itemsize")?.extract()?;
    let element = match (format.trim_start_matches(['@', '=', '<']), item_size) {
        ("i" | "I" | "l" | "L", 4) => Element::Int32,
        ("f", 4) => Element::Float32,
        _ => return Err(unknown_type(name, format_args!("{format:?} of a buffer"))),
    };
    let shape: Vec<usize> = view.getattr("shape")?.extract()?;
    if view.getattr("readonly")?.extract()? {
        return Err(fault(name, "the memory is read-only"));
    }
    if !view.getattr("c_contiguous")?.extract::<bool>()? {
        return Err(fault(name, "the elements of a row are not contiguous"));
    }
    if view.getattr("nbytes")?.extract::<usize>()? == 0 {
        return Err(fault(name, "the buffer is empty"));
    }
    let ctypes = view.py().import("ctypes")?;
    let owner = ctypes.getattr("c_char")?.call_method1("from_buffer", (view,))?;
    let address = ctypes.call_method1("addressof", (&owner,))?.extract()?;
    Ok(Report { owner, address, element, shape, strides: None, read_only: false })
}
