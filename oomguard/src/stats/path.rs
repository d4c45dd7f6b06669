//! Call paths: a tree of scopes by who called whom, one node a path, shared by all threads and never freed.
//!
//! Recursion folds: a scope that is already on the path stays at its node, so that the tree is no deeper than there are
//! scopes (after Ammons, Ball and Larus, "Exploiting hardware performance counters with flow and context sensitive
//! profiling", 1997, where such a step is a back edge of the calling-context tree).

use crate::scope::Site;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most nodes of a process. Past it a scope's calls count at its own root node, whoever called it; the report says so.
pub(crate) const MOST_NODES: usize = 1 << 16;

/// One call path.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) site: &'static Site,
    pub(crate) parent: Option<&'static Node>,
    /// Position among all nodes; a parent's is smaller than its children's.
    pub(crate) index: usize,
}

/// A step from a path into a scope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) node: &'static Node,
    /// The scope was on the path already.
    pub(crate) recursive: bool,
}

#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<&'static Node>,
    by_step: HashMap<(Option<usize>, *const Site), &'static Node>,
    full: bool,
}

// SAFETY: the pointers in `by_step` are addresses of `&'static Site`, used as keys and never followed.
unsafe impl Send for Tree {}

static TREE: Mutex<Option<Tree>> = Mutex::new(None);

fn tree() -> MutexGuard<'static, Option<Tree>> {
    TREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds or makes the node that a call of `site` from `parent` counts at. Takes a lock; remember the answer.
pub(crate) fn step(parent: Option<&'static Node>, site: &'static Site) -> Step {
    let mut ancestor = parent;
    while let Some(node) = ancestor {
        if std::ptr::eq(node.site, site) {
            return Step { node, recursive: true };
        }
        ancestor = node.parent;
    }
    let mut tree = tree();
    let tree = tree.get_or_insert_default();
    let parent = if tree.nodes.len() < MOST_NODES {
        parent
    } else {
        tree.full = true;
        None
    };
    let key = (parent.map(|node| node.index), std::ptr::from_ref(site));
    if let Some(node) = tree.by_step.get(&key) {
        return Step { node, recursive: false };
    }
    let node = Box::leak(Box::new(Node { site, parent, index: tree.nodes.len() }));
    tree.nodes.push(node);
    tree.by_step.insert(key, node);
    Step { node, recursive: false }
}

/// Every node so far, parents before children, and whether the tree is full.
pub(crate) fn nodes() -> (Vec<&'static Node>, bool) {
    tree().as_ref().map_or_else(Default::default, |tree| (tree.nodes.clone(), tree.full))
}
