// Attention on the CPU from Rust, through the C ABI: rustc forward.rs -L PREFIX/lib
use std::ffi::{c_char, c_void, CStr};

#[repr(C)] // attnpress_tensor: strides in elements
struct Tensor { data: *mut c_void, shape: [i64; 4], stride: [i64; 4], dtype: i32, reserved: i32 }
#[repr(C)] // attnpress_options, as far as version 0.2 has it
struct Options { struct_size: usize, backend: i32, ints: [i32; 3], pointers: [usize; 3],
                 cache_max_bytes: u64, log: [usize; 2], arch_max: i32, reserved: i32 }
#[repr(C)] // attnpress_forward_args, so too: a later library takes a shorter struct
struct ForwardArgs { struct_size: usize, q: Tensor, k: Tensor, v: Tensor, out: Tensor,
                     lse: *mut f32, lse_stride: [i64; 2], scale: f32, mask: i32,
                     num_splits: i32, reserved: i32, workspace: usize, workspace_bytes: usize }

#[link(name = "attnpress")]
extern "C" {
    fn attnpress_create(handle: *mut *mut c_void, options: *const Options) -> i32;
    fn attnpress_forward(h: *mut c_void, args: *const ForwardArgs, stream: *mut c_void) -> i32;
    fn attnpress_destroy(handle: *mut c_void);
    fn attnpress_last_error() -> *const c_char;
}
const CPU: i32 = 1;
const FP32: i32 = 3;
const CAUSAL: i32 = 1;

fn tensor(data: &mut [f32], [b, s, h, d]: [i64; 4]) -> Tensor {
    Tensor { data: data.as_mut_ptr().cast(), shape: [b, s, h, d],
             stride: [s * h * d, h * d, d, 1], dtype: FP32, reserved: 0 }
}

#[repr(C, align(64))]
struct Aligned([f32; 128 * 8 * 64]);

fn main() {
    let mut data: Vec<Aligned> = (0..4).map(|_| Aligned([0.0; 128 * 8 * 64])).collect();
    for (i, x) in data[..3].iter_mut().flat_map(|a| a.0.iter_mut()).enumerate() {
        *x = (i * 37 % 101) as f32 / 101.0 - 0.5;
    }
    let mut t = data.iter_mut().map(|a| tensor(&mut a.0, [1, 128, 8, 64]));
    let (q, k, v, out) = (t.next().unwrap(), t.next().unwrap(), t.next().unwrap(), t.next().unwrap());
    let args = ForwardArgs { struct_size: std::mem::size_of::<ForwardArgs>(), q, k, v, out,
        lse: std::ptr::null_mut(), lse_stride: [0; 2], scale: 0.0, mask: CAUSAL,
        num_splits: 0, reserved: 0, workspace: 0, workspace_bytes: 0 };
    let options = Options { struct_size: std::mem::size_of::<Options>(), backend: CPU, ints: [0; 3],
        pointers: [0; 3], cache_max_bytes: 0, log: [0; 2], arch_max: 0, reserved: 0 };
    let mut handle = std::ptr::null_mut();
    unsafe {
        if attnpress_create(&mut handle, &options) != 0
            || attnpress_forward(handle, &args, std::ptr::null_mut()) != 0 {
            panic!("{}", CStr::from_ptr(attnpress_last_error()).to_string_lossy());
        }
        attnpress_destroy(handle);
    }
    drop(t);
    println!("out[0] = {}; a row that sees one key is that key's value: {}", data[3].0[0], data[2].0[0]);
}
