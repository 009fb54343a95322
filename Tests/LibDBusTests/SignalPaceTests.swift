import Testing

@testable import LibDBus

@Suite struct SignalPaceTests {
    private let start = SuspendingClock.now

    private func at(_ milliseconds: Int) -> SuspendingClock.Instant { start.advanced(by: .milliseconds(milliseconds)) }

    @Test("a signal that comes alone is taken at once, and so is the next one a while later")
    func alone() {
        var pace = SignalPace()
        #expect(pace.rest(at: at(0)) == nil)
        for time in stride(from: 0, to: 100, by: 10) {
            pace.woke(forSignals: true, at: at(time))
            #expect(!pace.isStreaming && pace.rest(at: at(time)) == nil)
        }
    }

    @Test("signals that stream in gather, for four milliseconds at most, however often the loop wakes for other things")
    func streaming() {
        var pace = SignalPace()
        pace.woke(forSignals: true, at: at(0))
        pace.woke(forSignals: true, at: at(1))
        #expect(pace.isStreaming)
        #expect(pace.rest(at: at(1)) == 5 && pace.rest(at: at(3)) == 3 && pace.rest(at: at(5)) == nil)
        pace.woke(forSignals: true, at: at(6))
        #expect(pace.isStreaming && pace.rest(at: at(7)) == 4)
    }

    @Test("a wake-up without signals ends the stream")
    func ended() {
        var pace = SignalPace()
        pace.woke(forSignals: true, at: at(0))
        pace.woke(forSignals: true, at: at(1))
        pace.woke(forSignals: false, at: at(5))
        #expect(!pace.isStreaming && pace.rest(at: at(5)) == nil)
    }
}
