//! Sampled mode: the pools' counters, read at the edges of a call.
//!
//! Read are the device's default pool, its current pool where another was set, and the pools that the program named. Handles
//! are looked up once a device; no call here synchronises, makes a context or keeps one alive.

use super::driver::{Code, Driver};
use cudarc::driver::sys::{self, CUdevice_attribute as DeviceAttribute, CUmemPool_attribute as PoolAttribute};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most devices of a process whose figures are kept. A process that sees more has the rest counted as unknown.
pub(crate) const MOST_DEVICES: usize = 64;

/// Most pools of one device: its default pool and those that the program named.
const MOST_POOLS: usize = 8;

/// A device whose pools can be read, by ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device(pub(crate) u8);

impl Device {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0) % MOST_DEVICES
    }
}

/// Bytes of a device's pools at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    pub(crate) allocated: i64,
    pub(crate) reserved: i64,
}

/// What is known of a device, whether or not the driver can still be asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DeviceFacts {
    pub(crate) name: Option<String>,
    pub(crate) capacity: Option<u64>,
    /// Why its pools cannot be read.
    pub(crate) unusable: Option<String>,
}

const UNSEEN: u8 = 0;
const READY: u8 = 1;
const UNUSABLE: u8 = 2;

struct DeviceEntry {
    state: AtomicU8,
    /// The default pool first; then those that the program named; null where free.
    pools: [AtomicPtr<c_void>; MOST_POOLS],
    pools_in_use: AtomicU8,
    /// The default pool is the only one: the common case, which is read without a look at the others.
    one_pool: AtomicBool,
    /// The program set a current pool of its own: it is looked up at each reading, for it may change or be destroyed.
    follows_current: AtomicBool,
    peak_allocated: AtomicI64,
    peak_reserved: AtomicI64,
    /// The last code with which a reading failed; 0: none did.
    failure: AtomicU32,
    facts: Mutex<DeviceFacts>,
}

impl DeviceEntry {
    const fn new() -> Self {
        Self {
            state: AtomicU8::new(UNSEEN),
            pools: [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_POOLS],
            pools_in_use: AtomicU8::new(0),
            one_pool: AtomicBool::new(true),
            follows_current: AtomicBool::new(false),
            peak_allocated: AtomicI64::new(0),
            peak_reserved: AtomicI64::new(0),
            failure: AtomicU32::new(0),
            facts: Mutex::new(DeviceFacts { name: None, capacity: None, unusable: None }),
        }
    }

    /// Raises a peak. The common case, no new peak, is a load.
    fn raise(peak: &AtomicI64, value: i64) {
        if value > peak.load(Ordering::Relaxed) {
            peak.fetch_max(value, Ordering::Relaxed);
        }
    }
}

static DEVICES: [DeviceEntry; MOST_DEVICES] = [const { DeviceEntry::new() }; MOST_DEVICES];

/// Taken to look up a device or to change its pools; never on the hot path.
static LOOKING: Mutex<()> = Mutex::new(());

/// Reads pool counters through the driver.
#[derive(Debug)]
pub(crate) struct Sampler {
    driver: Driver,
    /// Whether watermarks may be reset, without which a call's peak is unknown.
    peaks: bool,
}

impl Sampler {
    pub(crate) fn new(driver: Driver, peaks: bool) -> Self {
        Self { driver, peaks }
    }

    /// The device of the thread's current context, if its pools can be read.
    #[inline]
    pub(crate) fn current_device(&self) -> Option<Device> {
        let mut ordinal: c_int = -1;
        // SAFETY: the pointer is to a live integer. The call only reads the thread's context.
        let code = unsafe { (self.driver.ctx_get_device)(&raw mut ordinal) };
        if code != 0 {
            return None;
        }
        let ordinal = u8::try_from(ordinal).ok().filter(|ordinal| usize::from(*ordinal) < MOST_DEVICES)?;
        let entry = &DEVICES[usize::from(ordinal)];
        let state = match entry.state.load(Ordering::Acquire) {
            UNSEEN => self.meet(Device(ordinal)),
            state => state,
        };
        (state == READY).then_some(Device(ordinal))
    }

    /// Allocated and reserved bytes of the device's pools; `None` where the driver would not say.
    #[inline]
    pub(crate) fn read(&self, device: Device) -> Option<Reading> {
        let entry = &DEVICES[device.index()];
        let reading = if entry.one_pool.load(Ordering::Acquire) {
            self.read_pool(entry, entry.pools[0].load(Ordering::Relaxed).cast())?
        } else {
            self.read_all(device, entry)?
        };
        DeviceEntry::raise(&entry.peak_allocated, reading.allocated);
        DeviceEntry::raise(&entry.peak_reserved, reading.reserved);
        Some(reading)
    }

    fn read_all(&self, device: Device, entry: &DeviceEntry) -> Option<Reading> {
        let mut sum = Reading::default();
        for pool in self.pools(device, entry) {
            let reading = self.read_pool(entry, pool)?;
            sum.allocated += reading.allocated;
            sum.reserved += reading.reserved;
        }
        Some(sum)
    }

    #[inline]
    fn read_pool(&self, entry: &DeviceEntry, pool: sys::CUmemoryPool) -> Option<Reading> {
        Some(Reading {
            allocated: self.get(entry, pool, PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
            reserved: self.get(entry, pool, PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
        })
    }

    /// The most allocated since the watermark was last reset; `None` where peaks are off or the device has several pools,
    /// whose watermarks are of different moments.
    #[inline]
    pub(crate) fn watermark(&self, device: Device) -> Option<i64> {
        let entry = &DEVICES[device.index()];
        if !self.peaks
            || entry.follows_current.load(Ordering::Relaxed)
            || entry.pools_in_use.load(Ordering::Relaxed) != 1
        {
            return None;
        }
        let pool = entry.pools[0].load(Ordering::Relaxed);
        let high = self.get(entry, pool.cast(), PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
        DeviceEntry::raise(&entry.peak_allocated, high);
        Some(high)
    }

    /// Sets the watermark back to what is allocated now.
    #[inline]
    pub(crate) fn reset_watermark(&self, device: Device) {
        let entry = &DEVICES[device.index()];
        let mut zero: u64 = 0;
        let pool: sys::CUmemoryPool = entry.pools[0].load(Ordering::Relaxed).cast();
        // SAFETY: the default pool lives as long as its device, and the attribute takes a 64-bit integer.
        let code = unsafe {
            (self.driver.pool_set)(pool, PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, (&raw mut zero).cast())
        };
        if code != 0 {
            entry.failure.store(code, Ordering::Relaxed);
        }
    }

    fn pools<'a>(&self, device: Device, entry: &'a DeviceEntry) -> impl Iterator<Item = sys::CUmemoryPool> + use<'a> {
        let in_use = usize::from(entry.pools_in_use.load(Ordering::Acquire)).min(MOST_POOLS);
        let own = entry.follows_current.load(Ordering::Relaxed).then(|| self.own_current_pool(device)).flatten();
        let named =
            entry.pools[..in_use].iter().map(|pool| pool.load(Ordering::Relaxed)).filter(|pool| !pool.is_null());
        let own = own.filter(|own| entry.pools[..in_use].iter().all(|pool| pool.load(Ordering::Relaxed) != own.cast()));
        named.map(<*mut c_void>::cast).chain(own)
    }

    /// The device's current pool, where it is not the default one.
    fn own_current_pool(&self, device: Device) -> Option<sys::CUmemoryPool> {
        let mut pool: sys::CUmemoryPool = std::ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        let code = unsafe { (self.driver.current_pool)(&raw mut pool, c_int::from(device.0)) };
        let default = DEVICES[device.index()].pools[0].load(Ordering::Relaxed);
        (code == 0 && !pool.is_null() && pool.cast() != default).then_some(pool)
    }

    #[inline]
    fn get(&self, entry: &DeviceEntry, pool: sys::CUmemoryPool, attribute: PoolAttribute) -> Option<i64> {
        let mut value: u64 = 0;
        // SAFETY: the pool is the device's default pool, its current pool as of now, or one that the program promised to
        // keep; the attributes asked for are 64-bit integers.
        let code = unsafe { (self.driver.pool_get)(pool, attribute, (&raw mut value).cast()) };
        if code != 0 {
            entry.failure.store(code, Ordering::Relaxed);
            return None;
        }
        i64::try_from(value).ok()
    }

    /// Looks a device up at its first call.
    #[cold]
    fn meet(&self, device: Device) -> u8 {
        let _looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = &DEVICES[device.index()];
        let state = entry.state.load(Ordering::Acquire);
        if state != UNSEEN {
            return state;
        }
        let found = self.default_pool(device);
        let mut facts = DeviceFacts { name: self.name(device), capacity: self.capacity(device), unusable: None };
        let state = match found {
            Ok(pool) => {
                entry.pools[0].store(pool.cast(), Ordering::Relaxed);
                entry.pools_in_use.store(entry.pools_in_use.load(Ordering::Relaxed).max(1), Ordering::Release);
                READY
            }
            Err(reason) => {
                facts.unusable = Some(reason);
                UNUSABLE
            }
        };
        *entry.facts.lock().unwrap_or_else(PoisonError::into_inner) = facts;
        entry.state.store(state, Ordering::Release);
        self.look_again(device);
        state
    }

    /// Sees whether the program has set a current pool of its own since. For the slow paths.
    pub(crate) fn look_again(&self, device: Device) {
        if self.own_current_pool(device).is_some() {
            let entry = &DEVICES[device.index()];
            entry.follows_current.store(true, Ordering::Relaxed);
            entry.one_pool.store(false, Ordering::Release);
        }
    }

    fn default_pool(&self, device: Device) -> Result<sys::CUmemoryPool, String> {
        let mut supported: c_int = 0;
        let attribute = DeviceAttribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        // SAFETY: the pointer is to a live integer.
        let code = unsafe { (self.driver.device_attribute)(&raw mut supported, attribute, c_int::from(device.0)) };
        if code == 0 && supported == 0 {
            return Err("the device or its driver has no memory pools".to_owned());
        }
        let mut pool: sys::CUmemoryPool = std::ptr::null_mut();
        // SAFETY: the pointer is to a live handle.
        match unsafe { (self.driver.default_pool)(&raw mut pool, c_int::from(device.0)) } {
            0 if !pool.is_null() => Ok(pool),
            code => Err(format!("its default pool cannot be had: {}", super::driver::describe(code))),
        }
    }

    fn name(&self, device: Device) -> Option<String> {
        let mut buffer = [0_u8; 256];
        let length = c_int::try_from(buffer.len()).ok()?;
        // SAFETY: the driver writes at most `length` bytes, a terminating zero among them.
        let code = unsafe { (self.driver.device_name)(buffer.as_mut_ptr().cast(), length, c_int::from(device.0)) };
        let name = std::ffi::CStr::from_bytes_until_nul(&buffer).ok()?;
        (code == 0).then(|| name.to_string_lossy().into_owned())
    }

    fn capacity(&self, device: Device) -> Option<u64> {
        let mut bytes: usize = 0;
        // SAFETY: the pointer is to a live integer.
        let code = unsafe { (self.driver.device_total)(&raw mut bytes, c_int::from(device.0)) };
        (code == 0).then_some(bytes as u64)
    }

    /// Bytes of CUDA graphs' memory on the device: allocated and reserved. It is in no pool.
    pub(crate) fn graph_memory(&self, device: Device) -> Option<Reading> {
        let get = |attribute: sys::CUgraphMem_attribute| {
            let mut value: u64 = 0;
            // SAFETY: both attributes are 64-bit integers.
            let code =
                unsafe { (self.driver.graph_memory)(c_int::from(device.0), attribute as u32, (&raw mut value).cast()) };
            (code == 0).then(|| i64::try_from(value).ok()).flatten()
        };
        Some(Reading {
            allocated: get(sys::CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)?,
            reserved: get(sys::CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?,
        })
    }

    /// Free bytes of the current context's device. A slow call: for reports only.
    pub(crate) fn free_memory(&self, device: Device) -> Option<u64> {
        if self.current_device() != Some(device) {
            return None;
        }
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: both pointers are to live integers.
        let code = unsafe { (self.driver.memory_info)(&raw mut free, &raw mut total) };
        (code == 0).then_some(free as u64)
    }
}

/// What is kept of a device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceRecord {
    pub(crate) device: Device,
    pub(crate) facts: DeviceFacts,
    pub(crate) peak: Reading,
    pub(crate) failure: Option<Code>,
    pub(crate) several_pools: bool,
}

/// Every device that a tracked call has met. Asks the driver nothing.
pub(crate) fn devices_met() -> Vec<DeviceRecord> {
    let met = DEVICES.iter().enumerate().filter(|(_, entry)| entry.state.load(Ordering::Acquire) != UNSEEN);
    met.map(|(index, entry)| DeviceRecord {
        device: Device(u8::try_from(index).unwrap_or(u8::MAX)),
        facts: entry.facts.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        peak: Reading {
            allocated: entry.peak_allocated.load(Ordering::Relaxed),
            reserved: entry.peak_reserved.load(Ordering::Relaxed),
        },
        failure: Some(entry.failure.load(Ordering::Relaxed)).filter(|code| *code != 0),
        several_pools: entry.follows_current.load(Ordering::Relaxed) || entry.pools_in_use.load(Ordering::Relaxed) > 1,
    })
    .collect()
}

/// Adds a pool of the program's to the device's figures. False: there is no room for another.
pub(crate) fn add_pool(device: Device, pool: *mut c_void) -> bool {
    let _looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = &DEVICES[device.index()];
    // The first place is the default pool's.
    let free = (1..MOST_POOLS).find(|index| entry.pools[*index].load(Ordering::Relaxed).is_null());
    let Some(index) = free else { return false };
    entry.pools[index].store(pool, Ordering::Relaxed);
    let in_use = u8::try_from(index + 1).unwrap_or(u8::MAX).max(entry.pools_in_use.load(Ordering::Relaxed));
    entry.pools_in_use.store(in_use, Ordering::Release);
    entry.one_pool.store(false, Ordering::Release);
    true
}

/// Takes a pool out of the device's figures again.
pub(crate) fn remove_pool(device: Device, pool: *mut c_void) {
    let _looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = &DEVICES[device.index()];
    for place in &entry.pools[1..] {
        if place.load(Ordering::Relaxed) == pool {
            place.store(std::ptr::null_mut(), Ordering::Relaxed);
            break;
        }
    }
    let last = (1..MOST_POOLS).rev().find(|index| !entry.pools[*index].load(Ordering::Relaxed).is_null());
    let in_use = u8::try_from(last.unwrap_or(0) + 1).unwrap_or(1);
    entry.pools_in_use.store(in_use, Ordering::Release);
    entry.one_pool.store(in_use == 1 && !entry.follows_current.load(Ordering::Relaxed), Ordering::Release);
}
