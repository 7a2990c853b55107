//! Calls on contents: write, truncate, allocate, map.

use super::{
    NodeId, Operation, RecordError,
    process::Target,
    request::Request,
    tracker::{Begun, Tracker},
    value,
};

impl Tracker {
    pub(super) fn write(
        &mut self,
        request: &Request<'_>,
        position: Option<usize>,
    ) -> Result<(), RecordError> {
        let Some(file) = self.processes.file(request.call.thread, request.number(0)?) else {
            return Ok(());
        };
        let node = match file.target {
            Target::Outside(_) => return Ok(()),
            Target::Output => {
                let data = request.data(1)?;
                self.begun.insert(request.call.start, Begun::Acknowledge(data));
                return Ok(());
            }
            Target::Node(node) => node,
        };
        request.end()?;
        let data = request.data(1)?;
        let size = self.namespace.tree.size(node);
        // Linux appends even where a position is given.
        let offset = match position {
            _ if file.append => size,
            Some(index) => request.unsigned(index)?,
            None => file.offset,
        };
        if position.is_none() {
            file.offset = offset + data.len() as u64;
        }
        if data.is_empty() {
            return Ok(());
        }
        self.push_on(request, node, Operation::Write { node, offset, data })
    }

    pub(super) fn write_with_flags(&mut self, request: &Request<'_>) -> Result<(), RecordError> {
        if self.node_of(request, 0).is_some() && !matches!(request.text(4), "0" | "") {
            return Err(request.unsupported("a write with flags"));
        }
        let position = (request.text(3) != "-1").then_some(3);
        self.write(request, position)
    }

    pub(super) fn truncate(
        &mut self,
        request: &Request<'_>,
        node: Option<NodeId>,
    ) -> Result<(), RecordError> {
        let Some(node) = node else { return Ok(()) };
        let len = request.unsigned(1)?;
        if len == self.namespace.tree.size(node) {
            return Ok(());
        }
        self.push_on(request, node, Operation::Resize { node, len })
    }

    pub(super) fn allocate(&mut self, request: &Request<'_>) -> Result<(), RecordError> {
        let Some(node) = self.node_of(request, 0) else {
            return Ok(());
        };
        let (mode, offset, len) = (request.text(1), request.unsigned(2)?, request.unsigned(3)?);
        let has = |flag| value::has_flag(mode, flag);
        let zeroes = has("FALLOC_FL_PUNCH_HOLE") || has("FALLOC_FL_ZERO_RANGE");
        if has("FALLOC_FL_COLLAPSE_RANGE") || has("FALLOC_FL_INSERT_RANGE") {
            return Err(request.unsupported("a range taken out or put in"));
        }
        if zeroes {
            self.push_on(request, node, Operation::Zero { node, offset, len })?;
        }
        let grows = offset + len > self.namespace.tree.size(node);
        if grows && !has("FALLOC_FL_KEEP_SIZE") {
            self.push_on(request, node, Operation::Resize { node, len: offset + len })?;
        }
        Ok(())
    }

    pub(super) fn map(&mut self, request: &Request<'_>) -> Result<(), RecordError> {
        let is_shared = request.has(3, "MAP_SHARED") || request.has(3, "MAP_SHARED_VALIDATE");
        if !is_shared || !request.has(2, "PROT_WRITE") {
            return Ok(());
        }
        let Some(node) = self.node_of(request, 4) else {
            return Ok(());
        };
        let path = self.namespace.relative(node);
        match path.file_name() {
            Some(name) if self.volatile.matches(name) => Ok(()),
            _ => Err(RecordError::SharedMapping { path }),
        }
    }
}
