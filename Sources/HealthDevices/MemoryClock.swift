import HealthReadings

/// A device's clock, as a ``MemoryJournal`` has it.
struct MemoryClock {
    /// In the order in which they began.
    private var epochs: [ClockEpochs.Epoch] = []

    /// Notes a reading of the clock.
    mutating func note(_ reading: ClockReading, in zone: ZoneRules) {
        let comparison = ClockComparison(reading, zone: zone)
        switch epochs(until: comparison.readAt).step(to: comparison, in: zone) {
        case .goesOn(let epoch):
            guard let place = epochs.firstIndex(where: { $0.key == epoch.key }) else { return }
            epochs[place].goOn(to: comparison, in: zone)
        case .begins:
            let epoch = ClockEpochs.Epoch(key: Int64(epochs.count), comparison, in: zone)
            let place = epochs.firstIndex { $0.startedAt > epoch.startedAt } ?? epochs.endIndex
            epochs.insert(epoch, at: place)
        case .isKnown: return
        }
    }

    /// The epochs that had begun at an instant, back to the one before the oldest break.
    func epochs(until end: Instant) -> ClockEpochs {
        var found = ClockEpochs()
        for epoch in epochs.reversed() where epoch.startedAt <= end && found.breakCount < ClockEpochs.mostBreaks {
            found.append(epoch)
        }
        return found
    }
}
