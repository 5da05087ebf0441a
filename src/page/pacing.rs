//! How much credit a run gets: the arithmetic behind the frame loop.
//!
//! A frame paints what has arrived and then lets the engine run a little ahead, so that it never waits for the page and never
//! runs far past what is on screen. How far ahead follows the engine's speed: twice what the last tick brought.
//!
//! Invariant: pure arithmetic; no clock, no DOM, no messages.

/// What calls the loop: `requestAnimationFrame`, or a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    Frame,
    /// For a run that nothing paces: painting every frame takes a third of a core from what such a run is there to measure.
    FreeTimer,
    /// Browsers slow timers of hidden tabs down to one a second: more credit, or the timer would set the speed.
    HiddenTimer,
}

impl Tick {
    /// How often it comes, milliseconds; frames come by themselves.
    pub fn interval_ms(self) -> Option<u32> {
        match self {
            Tick::Frame => None,
            Tick::FreeTimer => Some(100),
            Tick::HiddenTimer => Some(100),
        }
    }

    /// Tokens that may be on their way at most, for an engine that made `n_new` since the last tick.
    fn ahead(self, n_new: u32) -> u32 {
        let (least, most) = match self {
            Tick::Frame => (4, 32),
            Tick::FreeTimer => (4, 128),
            Tick::HiddenTimer => (32, 512),
        };
        n_new.saturating_mul(2).clamp(least, most)
    }

    /// Steps taken in at once at most: no task of a visible page may take long, and an unpaced run may have sent many. A hidden
    /// page paints nothing, and a cap per tick would set the speed of a run.
    pub fn n_most(self) -> usize {
        match self {
            Tick::Frame => 48,
            Tick::FreeTimer => 192,
            Tick::HiddenTimer => usize::MAX,
        }
    }
}

/// How fast the steps of a run are shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tempo {
    /// As they come.
    Full,
    /// Slow motion: one step at a time, so many milliseconds apart.
    Every { ms: f64 },
}

/// The account of one run. Credit counts steps from the start of the run and never goes down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pacing {
    n_painted: u32,
    n_granted: u32,
    /// Steps that may be painted at most, while the run is paused.
    limit: Option<u32>,
    /// When slow motion last showed a step.
    shown_ms: f64,
}

impl Pacing {
    /// A run that was started with credit for `n_granted` steps.
    pub fn new(n_granted: u32) -> Self {
        Self { n_painted: 0, n_granted, limit: None, shown_ms: f64::NEG_INFINITY }
    }

    /// Credit that a paced run starts with.
    pub fn first_credit() -> u32 {
        Tick::Frame.ahead(0)
    }

    /// Counts `n_new` painted steps without granting more: for a run that is paused or not paced.
    pub fn paint(&mut self, n_new: u32) {
        self.n_painted = self.n_painted.saturating_add(n_new);
    }

    /// Counts `n_new` painted steps; the new credit when there is more to grant.
    pub fn tick(&mut self, tick: Tick, n_new: u32) -> Option<u32> {
        self.paint(n_new);
        self.grant(self.n_painted.saturating_add(tick.ahead(n_new)))
    }

    /// Pauses: shows nothing more until it is asked to, not even what has come already.
    pub fn hold(&mut self) {
        self.limit = Some(self.n_painted);
    }

    /// Ends a pause.
    pub fn release(&mut self) {
        self.limit = None;
    }

    /// Lets a paused run show one more step; the credit that this takes, unless that step has been granted.
    pub fn one_more(&mut self) -> Option<u32> {
        let limit = self.limit.unwrap_or(self.n_painted).saturating_add(1);
        self.limit = Some(limit);
        self.grant(limit)
    }

    /// How many steps may be shown now.
    pub fn room(&self, tempo: Tempo, now_ms: f64) -> u32 {
        match (self.limit, tempo) {
            (Some(limit), _) => limit - self.n_painted,
            (None, Tempo::Full) => u32::MAX,
            (None, Tempo::Every { ms }) => u32::from(now_ms - self.shown_ms >= ms),
        }
    }

    /// Counts `n_new` steps shown in slow motion; the credit that keeps one more ready.
    pub fn tick_slowly(&mut self, n_new: u32, ms: f64, now_ms: f64) -> Option<u32> {
        self.paint(n_new);
        if n_new > 0 {
            // In step with the clock, but not to catch up.
            self.shown_ms = (self.shown_ms + ms).max(now_ms - ms / 8.0);
        }
        self.grant(self.n_painted.saturating_add(2))
    }

    fn grant(&mut self, n_steps: u32) -> Option<u32> {
        (n_steps > self.n_granted).then(|| {
            self.n_granted = n_steps;
            n_steps
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_grants_twice_what_it_painted() {
        let mut pacing = Pacing::new(4);
        assert_eq!(pacing.tick(Tick::Frame, 3), Some(9), "3 painted + 6 ahead");
        assert_eq!(pacing.tick(Tick::Frame, 5), Some(18), "8 painted + 10 ahead");
    }

    #[test]
    fn credit_stays_between_4_and_32_ahead() {
        let mut pacing = Pacing::new(4);
        assert_eq!(pacing.tick(Tick::Frame, 1), Some(5));
        assert_eq!(pacing.tick(Tick::Frame, 100), Some(133));
        assert_eq!(Pacing::new(0).tick(Tick::HiddenTimer, 0), Some(32));
        assert_eq!(Pacing::new(0).tick(Tick::HiddenTimer, 1000), Some(1512));
    }

    #[test]
    fn credit_never_goes_down_and_empty_frames_grant_nothing() {
        let mut pacing = Pacing::new(4);
        assert_eq!(pacing.tick(Tick::Frame, 10), Some(30));
        assert_eq!(pacing.tick(Tick::Frame, 1), None, "11 + 4 is below 30");
        assert_eq!(pacing.tick(Tick::Frame, 0), None);
        assert_eq!(pacing.tick(Tick::Frame, 19), Some(62));
    }

    #[test]
    fn a_hidden_tab_gets_ever_more_credit_up_to_its_most() {
        let mut pacing = Pacing::new(4);
        let (mut n_painted, mut n_granted) = (0, 4);
        for _ in 0..10 {
            // An engine that uses all its credit between two ticks.
            let n_new = (n_granted - n_painted).min(u32::try_from(Tick::HiddenTimer.n_most()).unwrap_or(u32::MAX));
            n_painted += n_new;
            n_granted = pacing.tick(Tick::HiddenTimer, n_new).expect("more credit at every tick");
        }
        assert_eq!(n_granted - n_painted, 512);
    }

    #[test]
    fn one_token_at_a_time() {
        let mut pacing = Pacing::new(1);
        pacing.paint(1);
        pacing.hold();
        assert_eq!((pacing.room(Tempo::Full, 0.0), pacing.one_more()), (0, Some(2)));
        assert_eq!(pacing.room(Tempo::Full, 0.0), 1);
        pacing.paint(1);
        pacing.release();
        assert_eq!(pacing.tick(Tick::Frame, 0), Some(6), "Generate goes on from a paused run");
    }

    #[test]
    fn a_pause_holds_what_was_granted_and_shows_it_first() {
        let mut pacing = Pacing::new(4);
        pacing.paint(1);
        pacing.hold();
        for n in 2..=4 {
            assert_eq!((pacing.room(Tempo::Full, 0.0), pacing.one_more()), (0, None), "step {n} was granted");
            pacing.paint(1);
        }
        assert_eq!(pacing.one_more(), Some(5));
        pacing.release();
        assert_eq!(pacing.room(Tempo::Full, 0.0), u32::MAX);
    }

    #[test]
    fn slow_motion_shows_one_step_at_a_time() {
        let tempo = Tempo::Every { ms: 100.0 };
        let mut pacing = Pacing::new(4);
        let mut shown = Vec::new();
        for frame in 0..60 {
            let now = f64::from(frame) * 16.0;
            let n_new = pacing.room(tempo, now).min(4);
            if n_new > 0 {
                shown.push(now);
            }
            pacing.tick_slowly(n_new, 100.0, now);
        }
        assert_eq!(shown.len(), 10, "in 0.96 s: {shown:?}");
        assert!(shown.windows(2).all(|pair| pair[1] - pair[0] >= 80.0), "{shown:?}");
    }

    #[test]
    fn counts_saturate() {
        let mut pacing = Pacing::new(u32::MAX);
        assert_eq!(pacing.tick(Tick::Frame, u32::MAX), None);
        assert_eq!(pacing.one_more(), None);
    }
}
