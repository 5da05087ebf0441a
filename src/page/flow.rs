//! The text as blocks of whole lines, so that a new token lays out and paints the last few lines only.
//!
//! The text is one paragraph to the eye. A block is closed where a line ends anyway: everything from the first chip of the last
//! line on goes into a new one. When the panel gets another width, the lines end elsewhere; then the blocks become parts of one
//! paragraph again, by style alone, and later ones are closed where the lines now end.
//!
//! Invariant: reads the layout only before a frame's first write, and never moves a chip that the reader holds.

use super::dom::{self, append, create};
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, Node};

/// Chips after which a block is closed at the next end of a line.
const N_HEAVY: usize = 48;
/// Characters of the prompt that cost about as much as a chip.
const N_PROMPT_CHARS: usize = 8;

pub struct Flow {
    root: HtmlElement,
    blocks: Vec<HtmlElement>,
    /// Index of the first chip in the last block.
    first: usize,
    n_prompt_chars: usize,
}

impl Flow {
    pub fn new() -> Self {
        let (root, block): (HtmlElement, HtmlElement) = (create("div", "text"), create("div", "lines"));
        append(&root, &block);
        Self { root, blocks: vec![block], first: 0, n_prompt_chars: 0 }
    }

    pub fn root(&self) -> &HtmlElement {
        &self.root
    }

    /// Puts the prompt before the chips, in the place of the one that was there.
    pub fn set_prompt(&mut self, prompt: &str) {
        let span: HtmlElement = create("span", "prompt-text");
        span.set_text_content(Some(prompt));
        self.n_prompt_chars = prompt.chars().count();
        match self.root.query_selector(".prompt-text").ok().flatten() {
            Some(old) => old.replace_with_with_node_1(&span).expect("the old prompt is in the document"),
            None => self.blocks[0].prepend_with_node_1(&span).expect("a new node can be put first"),
        }
    }

    pub fn append(&self, node: &Node) {
        append(self.open(), node);
    }

    /// Closes the last block if it is full and has a whole line. `chips` are those of the whole text.
    pub fn close_lines(&mut self, chips: &[HtmlElement]) {
        let in_prompt_block = if self.blocks.len() == 1 { self.n_prompt_chars / N_PROMPT_CHARS } else { 0 };
        let open = &chips[self.first..];
        if open.len() + in_prompt_block < N_HEAVY {
            return;
        }
        let Some(last) = open.last() else { return };
        let last_top = last.offset_top();
        let ends_above = |chip: &HtmlElement| chip.offset_top() + chip.offset_height() <= last_top;
        let Some(n_closed) = open.iter().rposition(ends_above).map(|at| at + 1) else { return };
        if open[n_closed..].iter().any(is_held) {
            return;
        }
        let block: HtmlElement = create("div", "lines");
        let mut next = Some(Node::from(open[n_closed].clone()));
        while let Some(node) = next {
            next = node.next_sibling();
            append(&block, &node);
        }
        // One that became a part of a paragraph stays it: it may begin in the middle of a line.
        if self.open().class_name() == "lines" {
            self.open().set_class_name("lines closed");
        }
        append(&self.root, &block);
        self.blocks.push(block);
        self.first += n_closed;
    }

    /// The panel has another width: no block ends where a line does.
    pub fn join(&self) {
        if self.blocks.len() > 1 {
            for block in &self.blocks {
                block.set_class_name("lines joined");
            }
        }
    }

    fn open(&self) -> &HtmlElement {
        self.blocks.last().expect("there is always one block")
    }
}

/// A chip with the focus or an end of the selection would lose it by being moved.
fn is_held(chip: &HtmlElement) -> bool {
    let document = dom::document();
    let selection = document.get_selection().ok().flatten();
    let ends = selection.map(|selection| [selection.anchor_node(), selection.focus_node()]);
    let focused = document.active_element().map(Element::unchecked_into::<Node>);
    ends.into_iter().flatten().flatten().chain(focused).any(|node| chip.contains(Some(&node)))
}
