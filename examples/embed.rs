// The same as embed.c in Rust, through the functions of tpugraphs.h alone:
// rustc embed.rs -L native=PREFIX/lib -l tpugraphs
use std::ffi::{c_char, c_int, CStr, CString};
use std::os::raw::c_void;
use std::ptr::{null, null_mut};

#[repr(C)]
struct Message {
    size: u32,
    status: i32,
    text: [c_char; 704],
}

const NODE: c_int = 0;
const GRAPH: c_int = 1;
const CONFIG: c_int = 2;

extern "C" {
    fn tg_ranker_open(path: *const c_char, options: *const c_void, ranker: *mut *mut c_void, m: *mut Message) -> c_int;
    fn tg_ranker_close(ranker: *mut c_void);
    fn tg_feature_index(ranker: *const c_void, group: c_int, name: *const c_char) -> i32;
    fn tg_feature_value(ranker: *const c_void, group: c_int, index: i32, value: *const c_char) -> i32;
    fn tg_builder_open(ranker: *mut c_void, builder: *mut *mut c_void, m: *mut Message) -> c_int;
    fn tg_builder_close(builder: *mut c_void);
    fn tg_builder_node(builder: *mut c_void, opcode: i32, configurable: c_int, node: *mut i64, m: *mut Message) -> c_int;
    fn tg_builder_edge(builder: *mut c_void, consumer: i64, operand: i64, m: *mut Message) -> c_int;
    fn tg_builder_config(builder: *mut c_void, like: i64, config: *mut i64, m: *mut Message) -> c_int;
    fn tg_builder_set(builder: *mut c_void, group: c_int, row: i64, feature: i32, value: f64, m: *mut Message) -> c_int;
    fn tg_builder_score(builder: *mut c_void, scores: *mut f32, m: *mut Message) -> c_int;
    fn tg_best(scores: *const f32, count: i64, k: i64, best: *mut i64, m: *mut Message) -> c_int;
}

/// A ranker with a graph; closes itself.
struct Model {
    ranker: *mut c_void,
    builder: *mut c_void,
    message: Message,
}

impl Model {
    fn open(path: &str) -> Result<Model, String> {
        let message = Message { size: std::mem::size_of::<Message>() as u32, status: 0, text: [0; 704] };
        let mut model = Model { ranker: null_mut(), builder: null_mut(), message };
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let status = unsafe { tg_ranker_open(path.as_ptr(), null(), &mut model.ranker, &mut model.message) };
        model.check(status)?;
        let status = unsafe { tg_builder_open(model.ranker, &mut model.builder, &mut model.message) };
        model.check(status)?;
        Ok(model)
    }

    fn check(&self, status: c_int) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        Err(unsafe { CStr::from_ptr(self.message.text.as_ptr()) }.to_string_lossy().into_owned())
    }

    fn index(&self, group: c_int, name: &str) -> i32 {
        let name = CString::new(name).unwrap();
        unsafe { tg_feature_index(self.ranker, group, name.as_ptr()) }
    }

    fn value(&self, group: c_int, index: i32, value: &str) -> f64 {
        let value = CString::new(value).unwrap();
        f64::from(unsafe { tg_feature_value(self.ranker, group, index, value.as_ptr()) })
    }

    fn node(&mut self, opcode: i32) -> Result<(), String> {
        let status = unsafe { tg_builder_node(self.builder, opcode, 0, null_mut(), &mut self.message) };
        self.check(status)
    }

    fn edge(&mut self, consumer: i64, operand: i64) -> Result<(), String> {
        let status = unsafe { tg_builder_edge(self.builder, consumer, operand, &mut self.message) };
        self.check(status)
    }

    fn config(&mut self) -> Result<(), String> {
        let status = unsafe { tg_builder_config(self.builder, -1, null_mut(), &mut self.message) };
        self.check(status)
    }

    fn set(&mut self, group: c_int, row: i64, feature: i32, value: f64) -> Result<(), String> {
        let status = unsafe { tg_builder_set(self.builder, group, row, feature, value, &mut self.message) };
        self.check(status)
    }

    fn scores(&mut self, count: usize) -> Result<Vec<f32>, String> {
        let mut scores = vec![0f32; count];
        let status = unsafe { tg_builder_score(self.builder, scores.as_mut_ptr(), &mut self.message) };
        self.check(status).map(|()| scores)
    }

    fn best(&mut self, scores: &[f32], k: usize) -> Result<Vec<i64>, String> {
        let mut best = vec![0i64; k];
        let count = scores.len() as i64;
        let status = unsafe { tg_best(scores.as_ptr(), count, k as i64, best.as_mut_ptr(), &mut self.message) };
        self.check(status).map(|()| best)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe {
            tg_builder_close(self.builder);
            tg_ranker_close(self.ranker);
        }
    }
}

fn run(path: &str) -> Result<(), String> {
    let mut model = Model::open(path)?;
    let (size, place) = (model.index(NODE, "size"), model.index(NODE, "where"));
    let device = model.value(NODE, place, "device");
    model.set(GRAPH, 0, model.index(GRAPH, "batch"), 32.0)?;
    for i in 0..5 {
        model.node((i % 3) as i32)?;
        model.set(NODE, i, size, f64::from(1 << (2 * i)))?;
        model.set(NODE, i, place, device)?;
        if i > 0 {
            model.edge(i, i - 1)?;
        }
    }
    let [block, unroll, vector, order] = ["block", "unroll", "vector", "order"].map(|name| model.index(CONFIG, name));
    let tiled = model.value(CONFIG, order, "tiled");
    for i in 0..1000i64 {
        model.config()?;
        model.set(CONFIG, i, block, f64::from(1 << (i % 9)))?;
        model.set(CONFIG, i, unroll, (1 + i % 8) as f64)?;
        model.set(CONFIG, i, vector, (i % 2) as f64)?;
        if i % 3 == 0 {
            model.set(CONFIG, i, order, tiled)?;
        }
    }
    let scores = model.scores(1000)?;
    for config in model.best(&scores, 5)? {
        println!("{} {}", config, scores[config as usize]);
    }
    Ok(())
}

fn main() {
    let path = std::env::args().nth(1).unwrap_or_default();
    if let Err(error) = run(&path) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
