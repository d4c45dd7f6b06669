//! Modules, their functions and variables, and launches, which are counted and compute nothing.

use std::collections::BTreeMap;

use super::error::{Error, Result};
use super::image::{Image, Names};
use super::{Caller, Card};

/// Threads, shared memory and blocks that a multiprocessor of an H200 holds.
const THREADS: u64 = 2048;
const THREADS_IN_A_BLOCK: u64 = 1024;
const SHARED: u64 = 233_472;
const SHARED_IN_A_BLOCK: i32 = 232_448;
const BLOCKS: u64 = 32;
const MULTIPROCESSORS: u64 = 132;
/// What the driver keeps of the shared memory of each block.
const SHARED_OVERHEAD: u64 = 1024;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`, the most important of those that can be set.
const MAX_DYNAMIC_SHARED: u32 = 8;

/// What `cuFuncGetAttribute` answers for a small kernel on an H200, by number.
const FUNCTION_ATTRIBUTES: [i32; 16] = [1024, 0, 0, 0, 4, 70, 90, 0, 49_152, -1, 0, 0, 0, 0, 0, 0];

#[derive(Debug)]
pub(super) struct Module {
    pub(super) context: u64,
    names: Option<Names>,
    /// The block that stands for the code.
    code: u64,
    variables: BTreeMap<String, (u64, u64)>,
    functions: BTreeMap<String, u64>,
}

#[derive(Debug)]
pub(super) struct Function {
    module: u64,
    name: std::ffi::CString,
    attributes: [i32; 16],
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

impl Card {
    /// Loads a PTX text.
    pub(crate) fn load_ptx(&mut self, caller: Caller, text: &str) -> Result<u64> {
        self.load(caller, Image::from_ptx(text).ok_or(Error::InvalidImage)?)
    }

    /// Loads machine code of so many bytes.
    pub(crate) fn load_opaque(&mut self, caller: Caller, bytes: u64) -> Result<u64> {
        self.load(caller, Image::opaque(bytes))
    }

    fn load(&mut self, caller: Caller, image: Image) -> Result<u64> {
        let device = self.context(caller.context)?.device;
        let available = self.made_available(device, image.bytes);
        let code = self.context_mut(caller.context)?.images.allocate(image.bytes, available)?;
        let module = self.new_handle();
        let declared = image.names.as_ref().map_or_else(Vec::new, |names| names.variables.clone());
        let fresh = Module {
            context: caller.context,
            names: image.names,
            code,
            variables: BTreeMap::new(),
            functions: BTreeMap::new(),
        };
        self.modules.insert(module, fresh);
        for (name, bytes) in declared {
            let available = self.made_available(device, bytes);
            let address = match self.context_mut(caller.context)?.images.allocate(bytes, available) {
                Ok(address) => address,
                Err(error) => {
                    self.unload(module)?;
                    return Err(error);
                }
            };
            if let Some(module) = self.modules.get_mut(&module) {
                module.variables.insert(name, (address, bytes));
            }
        }
        Ok(module)
    }

    pub(crate) fn unload(&mut self, handle: u64) -> Result<()> {
        let module = self.modules.get(&handle).ok_or(Error::InvalidHandle)?;
        let blocks: Vec<u64> = module.variables.values().map(|&(at, _)| at).chain([module.code]).collect();
        let context = module.context;
        if let Ok(context) = self.context_mut(context) {
            for block in blocks {
                context.images.free(block);
            }
        }
        self.forget_module(handle);
        Ok(())
    }

    /// Drops a module whose memory is gone already.
    pub(super) fn forget_module(&mut self, handle: u64) {
        self.modules.remove(&handle);
        self.functions.retain(|_, function| function.module != handle);
        self.libraries.retain(|_, module| *module != handle);
    }

    pub(crate) fn function(&mut self, handle: u64, name: &std::ffi::CStr) -> Result<u64> {
        let module = self.modules.get(&handle).ok_or(Error::InvalidHandle)?;
        let text = name.to_str().map_err(|_| Error::NotFound)?;
        if let Some(&function) = module.functions.get(text) {
            return Ok(function);
        }
        let known = module.names.as_ref().is_none_or(|names| names.kernels.iter().any(|kernel| kernel == text));
        if !known || text.is_empty() {
            return Err(Error::NotFound);
        }
        let function = self.new_handle();
        if let Some(module) = self.modules.get_mut(&handle) {
            module.functions.insert(text.to_owned(), function);
        }
        let fresh = Function { module: handle, name: name.to_owned(), attributes: FUNCTION_ATTRIBUTES };
        self.functions.insert(function, fresh);
        Ok(function)
    }

    /// A variable's address and size.
    pub(crate) fn variable(&self, handle: u64, name: &str) -> Result<(u64, u64)> {
        let module = self.modules.get(&handle).ok_or(Error::InvalidHandle)?;
        module.variables.get(name).copied().ok_or(Error::NotFound)
    }

    /// How many kernels an image declares, where it can be read.
    pub(crate) fn function_count(&self, handle: u64) -> Result<usize> {
        let module = self.modules.get(&handle).ok_or(Error::InvalidHandle)?;
        Ok(module.names.as_ref().map_or(module.functions.len(), |names| names.kernels.len()))
    }

    pub(crate) fn function_module(&self, function: u64) -> Result<u64> {
        self.functions.get(&function).map(|function| function.module).ok_or(Error::InvalidHandle)
    }

    /// The name, which lives as long as the function.
    pub(crate) fn function_name(&self, function: u64) -> Result<*const std::ffi::c_char> {
        self.functions.get(&function).map(|function| function.name.as_ptr()).ok_or(Error::InvalidHandle)
    }

    pub(crate) fn function_attribute(&self, function: u64, attribute: u32) -> Result<i32> {
        let function = self.functions.get(&function).ok_or(Error::InvalidHandle)?;
        function.attributes.get(attribute as usize).copied().ok_or(Error::InvalidValue)
    }

    pub(crate) fn set_function_attribute(&mut self, function: u64, attribute: u32, value: i32) -> Result<()> {
        let function = self.functions.get_mut(&function).ok_or(Error::InvalidHandle)?;
        let too_much = attribute == MAX_DYNAMIC_SHARED && !(0..=SHARED_IN_A_BLOCK).contains(&value);
        if attribute < MAX_DYNAMIC_SHARED || too_much {
            return Err(Error::InvalidValue);
        }
        let slot = function.attributes.get_mut(attribute as usize).ok_or(Error::InvalidValue)?;
        *slot = value;
        Ok(())
    }

    /// Checks a launch as the driver would, queues it and counts it.
    pub(crate) fn launch(&mut self, caller: Caller, function: u64, shape: Shape, stream: u64) -> Result<()> {
        let known = self.functions.get(&function).map(|function| function.attributes[MAX_DYNAMIC_SHARED as usize]);
        let Some(dynamic) = known else {
            // The stream is looked at first: without a context that is what is wrong.
            self.stream(caller, stream)?;
            return Err(Error::InvalidHandle);
        };
        let product = |sides: [u32; 3]| sides.into_iter().map(u64::from).try_fold(1, u64::checked_mul);
        let threads = product(shape.block).ok_or(Error::InvalidValue)?;
        self.stream(caller, stream)?;
        let empty = shape.grid.contains(&0) || threads == 0;
        if empty || threads > THREADS_IN_A_BLOCK || i64::from(shape.shared) > i64::from(dynamic) {
            return Err(Error::InvalidValue);
        }
        self.enqueue(caller, stream)?;
        self.launches += 1;
        Ok(())
    }

    /// Kernels launched so far.
    pub(crate) fn launches(&self) -> u64 {
        self.launches
    }

    /// Blocks of a function that a multiprocessor can hold at once.
    pub(crate) fn blocks_on_a_multiprocessor(&self, function: u64, threads: u64, shared: u64) -> Result<u64> {
        self.function_module(function)?;
        if threads == 0 || threads > THREADS_IN_A_BLOCK {
            return Err(Error::InvalidValue);
        }
        let by_threads = THREADS / threads.next_multiple_of(32);
        let by_shared = SHARED / shared.saturating_add(SHARED_OVERHEAD);
        Ok(by_threads.min(by_shared).min(BLOCKS))
    }

    /// The least grid that fills the device, and the threads of its blocks.
    pub(crate) fn filling_grid(&self, function: u64, shared: u64, limit: u64) -> Result<(u64, u64)> {
        let most = if limit == 0 { THREADS_IN_A_BLOCK } else { limit.min(THREADS_IN_A_BLOCK) };
        let blocks = self.blocks_on_a_multiprocessor(function, most, shared)?;
        Ok((blocks * MULTIPROCESSORS, most))
    }

    /// Dynamic shared memory that each of so many blocks could have.
    pub(crate) fn shared_for_each(&self, function: u64, blocks: u64) -> Result<u64> {
        let most = u64::try_from(self.function_attribute(function, MAX_DYNAMIC_SHARED)?).unwrap_or(0);
        let share = SHARED / blocks.max(1);
        Ok(share.saturating_sub(SHARED_OVERHEAD).min(most))
    }

    /// A library is a module that was loaded without asking for a context's.
    pub(crate) fn make_library(&mut self, module: u64) -> u64 {
        let library = self.new_handle();
        self.libraries.insert(library, module);
        library
    }

    pub(crate) fn library_module(&self, library: u64) -> Result<u64> {
        self.libraries.get(&library).copied().ok_or(Error::InvalidHandle)
    }

    pub(crate) fn library_of(&self, function: u64) -> Result<u64> {
        let module = self.function_module(function)?;
        let found = self.libraries.iter().find(|(_, owned)| **owned == module);
        found.map(|(&library, _)| library).ok_or(Error::InvalidHandle)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{card_with_context, small};
    use super::*;

    const PTX: &str = ".version 7.0\n.target sm_70\n.global .u32 counter[4];\n.entry k() { ret; }";

    #[test]
    fn a_module_takes_memory_and_gives_it_back() {
        let (mut card, caller) = card_with_context(small());
        let before = card.available(0);
        let large = card.load_opaque(caller, 5 << 20).unwrap();
        assert_eq!(card.available(0), before - (6 << 20));
        card.unload(large).unwrap();
        let module = card.load_ptx(caller, PTX).unwrap();
        assert_eq!(card.available(0), before, "a small one fits into what the context has");
        let (at, bytes) = card.variable(module, "counter").unwrap();
        assert_eq!(bytes, 16);
        assert!(card.block_at(at).is_some());
        assert_eq!(card.variable(module, "nope"), Err(Error::NotFound));
        assert_eq!(card.free(caller, at), Err(Error::InvalidValue));
        card.unload(module).unwrap();
        assert_eq!(card.available(0), before);
        assert_eq!(card.unload(module), Err(Error::InvalidHandle));
        assert_eq!(card.load_ptx(caller, "garbage"), Err(Error::InvalidImage));
    }

    #[test]
    fn launches_are_checked_and_counted() {
        let (mut card, caller) = card_with_context(small());
        let module = card.load_ptx(caller, PTX).unwrap();
        let kernel = card.function(module, c"k").unwrap();
        assert_eq!(card.function(module, c"k"), Ok(kernel));
        assert_eq!(card.function(module, c"nope"), Err(Error::NotFound));
        let shape = Shape { grid: [1, 1, 1], block: [32, 1, 1], shared: 0 };
        assert_eq!(card.launch(caller, kernel, shape, 0), Ok(()));
        assert_eq!(card.launch(caller, kernel, Shape { grid: [0, 1, 1], ..shape }, 0), Err(Error::InvalidValue));
        assert_eq!(card.launch(caller, kernel, Shape { block: [2000, 1, 1], ..shape }, 0), Err(Error::InvalidValue));
        assert_eq!(card.launch(caller, kernel, Shape { shared: 50_000, ..shape }, 0), Err(Error::InvalidValue));
        assert_eq!(card.launch(caller, 0, shape, 0), Err(Error::InvalidHandle));
        assert_eq!(card.launches(), 1);
        assert_eq!(card.blocks_on_a_multiprocessor(kernel, 256, 0), Ok(8));
        assert_eq!(card.filling_grid(kernel, 0, 0), Ok((264, 1024)));
        assert_eq!(card.shared_for_each(kernel, 1), Ok(49_152));
    }
}
