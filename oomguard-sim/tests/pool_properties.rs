//! What holds for the pool whatever is done to it.

use std::collections::BTreeMap;

use oomguard_sim::pool::{GRANULE, Mark, Pool, Reuse, Settings, StreamId};

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("an index")
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn size(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(4096),
            1 => self.below(1 << 20),
            2 => self.below(80) << 19,
            _ => self.below(4) * GRANULE,
        }
    }
}

fn check(pool: &Pool, live: &BTreeMap<u64, u64>, given: u64) {
    assert!(pool.live_blocks().eq(live.iter().map(|(&start, &bytes)| (start, bytes))));
    let blocks: Vec<_> = pool.live_blocks().collect();
    for pair in blocks.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} overlap");
        assert!(pair[0].0 < pair[1].0);
    }
    let granules: BTreeMap<_, _> = pool.granules().map(|granule| (granule.offset, granule.live)).collect();
    let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
    for (start, bytes) in blocks {
        assert!(start + bytes <= pool.extent());
        let mut at = start;
        while at < start + bytes {
            let granule = at / GRANULE * GRANULE;
            let end = (start + bytes).min(granule + GRANULE);
            *expected.entry(granule).or_default() += end - at;
            at = end;
        }
    }
    assert_eq!(pool.used(), live.values().sum::<u64>());
    assert_eq!(pool.reserved(), granules.len() as u64 * GRANULE);
    assert!(expected.iter().all(|(granule, bytes)| granules.get(granule) == Some(bytes)), "a live block is not mapped");
    assert!(granules.iter().all(|(granule, bytes)| *bytes == expected.get(granule).copied().unwrap_or(0)));
    let most =
        if pool.settings().max_size == 0 { u64::MAX } else { pool.settings().max_size.next_multiple_of(GRANULE) };
    assert!(pool.reserved() <= most.min(given), "{} reserved of {}", pool.reserved(), most.min(given));
    assert!(pool.reserved() <= pool.reserved_high() && pool.used() <= pool.used_high());
}

fn wander(seed: u64, max_size: u64, given: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut pool = Pool::new(Settings { max_size, release_threshold: 0 });
    let mut live = BTreeMap::new();
    let mut marks: Vec<(StreamId, Mark)> = Vec::new();
    for step in 0..1500 {
        let stream = StreamId(random.below(4));
        match random.below(20) {
            0 => pool.synchronize(stream),
            1 if random.chance(20) => pool.synchronize_all(),
            2 => pool.trim_to(random.below(20) * GRANULE / 2),
            3 => pool.set_release_threshold([0, u64::MAX, random.below(20) * GRANULE][random.index(3)]),
            4 => pool.set_busy(stream, random.chance(50)),
            5 => marks.push((stream, pool.mark())),
            6 if !marks.is_empty() => {
                let (on, mark) = marks[random.index(marks.len())];
                pool.wait(stream, on, mark);
            }
            7 if !marks.is_empty() => {
                let (on, mark) = marks[random.index(marks.len())];
                pool.synchronize_to(on, mark);
            }
            8 if random.chance(5) => pool.set_reuse(Reuse {
                follow_events: random.chance(50),
                opportunistic: random.chance(50),
                internal_dependencies: random.chance(50),
            }),
            _ if !live.is_empty() && random.below(50) < live.len() as u64 => {
                let index = random.index(live.len());
                let (&offset, &bytes) = live.iter().nth(index).expect("a block");
                assert_eq!(pool.free(offset, stream), Ok(bytes));
                assert!(pool.free(offset, stream).is_err());
                live.remove(&offset);
            }
            _ => {
                let bytes = random.size();
                if let Ok(offset) = pool.alloc(bytes, stream, given - pool.reserved()) {
                    assert!(live.insert(offset, bytes).is_none());
                }
            }
        }
        if step % 10 == 0 {
            check(&pool, &live, given);
        }
    }
    check(&pool, &live, given);
    for (offset, _) in std::mem::take(&mut live) {
        pool.free(offset, StreamId(1)).expect("a live block");
    }
    pool.set_release_threshold(0);
    pool.synchronize_all();
    assert_eq!((pool.used(), pool.reserved()), (0, 0));
}

#[test]
fn blocks_never_overlap_and_every_figure_adds_up() {
    for seed in 1..=40 {
        wander(seed, 0, 1 << 40);
        wander(seed, 512 << 20, 1 << 40);
        wander(seed, (512 << 20) + 5, 10 * GRANULE);
        wander(seed, 0, 17 * GRANULE);
    }
}

#[test]
fn no_mapped_granule_is_told_as_unmapped() {
    let mut random = Random(99);
    let mut pool = Pool::new(Settings { max_size: 20 * GRANULE, release_threshold: 0 });
    let mut live = Vec::new();
    for _ in 0..3000 {
        if live.len() > 12 {
            let offset = live.swap_remove(random.index(live.len()));
            pool.free(offset, StreamId(1)).expect("a live block");
        } else if let Ok(offset) = pool.alloc(random.size(), StreamId(1), u64::MAX) {
            live.push(offset);
        }
        if random.chance(5) {
            pool.synchronize(StreamId(1));
        }
        let mapped: Vec<_> = pool.granules().map(|granule| granule.offset).collect();
        assert!(pool.take_unmapped().iter().all(|offset| mapped.binary_search(offset).is_err()));
    }
}

#[test]
fn a_pool_of_a_hundred_thousand_blocks_is_not_slow() {
    let mut random = Random(7);
    let mut pool = Pool::new(Settings { max_size: 0, release_threshold: u64::MAX });
    let start = std::time::Instant::now();
    let mut live: Vec<u64> = Vec::new();
    for step in 0_u64..400_000 {
        if live.len() >= 100_000 {
            let offset = live.swap_remove(random.index(live.len()));
            pool.free(offset, StreamId(step % 3)).expect("a live block");
        } else {
            live.push(pool.alloc(1 + random.below(64 << 10), StreamId(step % 2), u64::MAX).expect("memory"));
        }
    }
    // Minutes, were any operation to look at every block.
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}
