//! Calls on contents: write, truncate, allocate, map.

use super::{
    DiskOperation, NodeId, RecordError,
    call_args::CallArgs,
    strace_value,
    traced_processes::DescriptorTarget,
    tracker::{PendingCall, Tracker},
};

impl Tracker {
    pub(super) fn write(
        &mut self,
        request: &CallArgs<'_>,
        position: Option<usize>,
    ) -> Result<(), RecordError> {
        let Some(file) = self.processes.file(request.call.thread, request.number(0)?) else {
            return Ok(());
        };
        let node = match file.target {
            DescriptorTarget::Outside(_) => return Ok(()),
            DescriptorTarget::Output => {
                let data = request.data(1)?;
                self.begun.insert(request.call.start, PendingCall::Acknowledge(data));
                return Ok(());
            }
            DescriptorTarget::Node(node) => node,
        };
        request.end_edge()?;
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
        self.push_node_event(request, node, DiskOperation::Write { node, offset, data })
    }

    pub(super) fn write_with_flags(&mut self, request: &CallArgs<'_>) -> Result<(), RecordError> {
        if self.node_of(request, 0).is_some() && !matches!(request.text(4), "0" | "") {
            return Err(request.unsupported_error("a write with flags"));
        }
        let position = (request.text(3) != "-1").then_some(3);
        self.write(request, position)
    }

    pub(super) fn truncate(
        &mut self,
        request: &CallArgs<'_>,
        node: Option<NodeId>,
    ) -> Result<(), RecordError> {
        let Some(node) = node else { return Ok(()) };
        let len = request.unsigned(1)?;
        if len == self.namespace.tree.size(node) {
            return Ok(());
        }
        self.push_node_event(request, node, DiskOperation::Resize { node, len })
    }

    pub(super) fn allocate(&mut self, request: &CallArgs<'_>) -> Result<(), RecordError> {
        let Some(node) = self.node_of(request, 0) else {
            return Ok(());
        };
        let (mode, offset, len) = (request.text(1), request.unsigned(2)?, request.unsigned(3)?);
        let has = |flag| strace_value::has_flag(mode, flag);
        let zeroes = has("FALLOC_FL_PUNCH_HOLE") || has("FALLOC_FL_ZERO_RANGE");
        if has("FALLOC_FL_COLLAPSE_RANGE") || has("FALLOC_FL_INSERT_RANGE") {
            return Err(request.unsupported_error("a range taken out or put in"));
        }
        if zeroes {
            self.push_node_event(request, node, DiskOperation::Zero { node, offset, len })?;
        }
        let grows = offset + len > self.namespace.tree.size(node);
        if grows && !has("FALLOC_FL_KEEP_SIZE") {
            self.push_node_event(request, node, DiskOperation::Resize { node, len: offset + len })?;
        }
        Ok(())
    }

    pub(super) fn map_memory(&mut self, request: &CallArgs<'_>) -> Result<(), RecordError> {
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
