//! Launches, which are checked and counted and compute nothing, and how much of the device one would fill.

use std::ffi::{c_int, c_uint, c_void};

use super::abi::{CUfunction, CUlaunchConfig, CUoccupancyB2DSize, CUstream};
use super::{Out, as_caller, exports, on_card, read};
use crate::card::{Error, Result, Shape};

fn launch(function: CUfunction, shape: Shape, stream: CUstream) -> Result<()> {
    as_caller(|card, caller| card.launch(caller, function, shape, stream))
}

fn number(value: u64) -> Result<c_int> {
    c_int::try_from(value).map_err(|_| Error::Unknown)
}

fn unsigned(value: c_int) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::InvalidValue)
}

fn put_blocks(out: *mut c_int, function: CUfunction, threads: c_int, shared: usize) -> Result<()> {
    let out = Out::needed(out)?;
    let threads = unsigned(threads)?;
    out.set(number(on_card(|card| card.blocks_on_a_multiprocessor(function, threads, shared as u64))?)?);
    Ok(())
}

fn put_grid(
    (grid, block): (*mut c_int, *mut c_int),
    function: CUfunction,
    shared_of: CUoccupancyB2DSize,
    shared: usize,
    limit: c_int,
) -> Result<()> {
    let (out_grid, out_block) = (Out::needed(grid)?, Out::needed(block)?);
    let limit = unsigned(limit)?;
    let most = if limit == 0 { 1024 } else { limit.min(1024) };
    let shared = match shared_of {
        // SAFETY: the caller of the C function promises a function of the threads in a block.
        Some(shared_of) => unsafe { shared_of(number(most)?) },
        None => shared,
    };
    let (grid, block) = on_card(|card| card.filling_grid(function, shared as u64, limit))?;
    out_grid.set(number(grid)?);
    out_block.set(number(block)?);
    Ok(())
}

exports! {
    fn cuLaunchKernel / cuLaunchKernel_ptsz by stream (
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: CUstream,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let _ = (arguments, extra);
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        launch(function, shape, stream)
    }

    fn cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz by stream (
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: CUstream,
        arguments: *mut *mut c_void,
    ) {
        let _ = arguments;
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        launch(function, shape, stream)
    }

    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let _ = (arguments, extra);
        let config = read(config)?;
        launch(function, Shape { grid: config.grid, block: config.block, shared: config.shared }, config.stream)
    }

    fn cuLaunchKernelEx_ptsz(
        config: *const CUlaunchConfig,
        function: CUfunction,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let _ = (arguments, extra);
        let config = read(config)?;
        let stream = super::stream::own_default(config.stream);
        launch(function, Shape { grid: config.grid, block: config.block, shared: config.shared }, stream)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        out: *mut c_int,
        function: CUfunction,
        threads: c_int,
        shared: usize,
    ) {
        put_blocks(out, function, threads, shared)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        out: *mut c_int,
        function: CUfunction,
        threads: c_int,
        shared: usize,
        flags: c_uint,
    ) {
        let _ = flags;
        put_blocks(out, function, threads, shared)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int,
        block: *mut c_int,
        function: CUfunction,
        shared_of: CUoccupancyB2DSize,
        shared: usize,
        limit: c_int,
    ) {
        put_grid((grid, block), function, shared_of, shared, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut c_int,
        block: *mut c_int,
        function: CUfunction,
        shared_of: CUoccupancyB2DSize,
        shared: usize,
        limit: c_int,
        flags: c_uint,
    ) {
        let _ = flags;
        put_grid((grid, block), function, shared_of, shared, limit)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        out: *mut usize,
        function: CUfunction,
        blocks: c_int,
        threads: c_int,
    ) {
        let out = Out::needed(out)?;
        let (blocks, _) = (unsigned(blocks)?, unsigned(threads)?);
        let bytes = on_card(|card| card.shared_for_each(function, blocks))?;
        out.set(usize::try_from(bytes).map_err(|_| Error::Unknown)?);
        Ok(())
    }

    fn cuOccupancyMaxPotentialClusterSize(out: *mut c_int, function: CUfunction, config: *const CUlaunchConfig) {
        let out = Out::needed(out)?;
        read(config)?;
        on_card(|card| card.function_module(function))?;
        // The portable most.
        out.set(8);
        Ok(())
    }

    fn cuOccupancyMaxActiveClusters(out: *mut c_int, function: CUfunction, config: *const CUlaunchConfig) {
        let out = Out::needed(out)?;
        read(config)?;
        on_card(|card| card.function_module(function))?;
        out.set(16);
        Ok(())
    }
}
