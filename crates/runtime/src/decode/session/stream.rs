//! Streams the output: its text and values as soon as nothing can change them.
//!
//! # Cost
//!
//! Linear in the text; nothing if no one receives events.

use crate::decode::events::Event;
use crate::decode::json_stream::JsonStream;
use crate::decode::stats::Stats;
use crate::decode::transcript::{Ending, Transcript};
use crate::decode::watch::OutputWatch;

/// The receiver of events, if there is one.
pub(in crate::decode) type OnEvent<'a, 'b> = &'a mut Option<&'b mut dyn FnMut(Event)>;

/// What the receiver of events has seen.
#[derive(Default)]
pub(super) struct OutputStream {
    /// Number of bytes streamed.
    streamed: usize,
    fields: JsonStream,
    /// Number of forwards at the last statistics.
    forwards: usize,
}

impl OutputStream {
    /// Emits new text and statistics.
    pub(super) fn emit(&mut self, output: &Transcript, stats: &Stats, on_event: OnEvent) {
        self.emit_text(output, false, on_event);
        if self.forwards < stats.forwards {
            self.forwards = stats.forwards;
            if let Some(on_event) = on_event {
                on_event(Event::Stats(stats));
            }
        }
    }

    /// Emits text that is complete UTF-8 and that no stop text can remove; at the end, all that
    /// remains.
    pub(super) fn emit_text(&mut self, output: &Transcript, end: bool, on_event: OnEvent) {
        let Some(on_event) = on_event else { return };
        let text = &output.text;
        let decided = match (end, output.ending) {
            (true, _) => text.len(),
            (false, Some(Ending::Text { cut, .. })) => cut,
            (false, _) => {
                let cut = output.watch.as_ref().map_or(0, OutputWatch::undecided);
                text.len() - output.stops.undecided_in_answer(text, output.answer).max(cut)
            }
        };
        let rest = &text[self.streamed..decided.max(self.streamed)];
        let ready = match std::str::from_utf8(rest) {
            Ok(_) => rest.len(),
            Err(e) if !end && e.error_len().is_none() => e.valid_up_to(),
            Err(_) => rest.len(),
        };
        if ready > 0 {
            on_event(Event::Text(&String::from_utf8_lossy(&rest[..ready])));
            // Values are those of the answer only.
            let skipped = output.answer.map_or(ready, |at| at.saturating_sub(self.streamed).min(ready));
            for field in self.fields.feed(&rest[skipped..ready]) {
                on_event(Event::Field(&field));
            }
            self.streamed += ready;
        }
    }
}
