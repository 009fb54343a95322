import HealthReadings
import Logging
import ReadingStore
import VitalClient

/// What is posted together.
struct Chunk {
    var stage: PostStage
    /// What a backfill covers.
    var period: ClosedRange<Instant>?
    var items: ArraySlice<Prepared>
    /// Whether nothing of the same stage follows.
    var isLast: Bool

    /// Its first and second half.
    var halves: (Chunk, Chunk) {
        let middle = items.startIndex + items.count / 2
        func half(_ items: ArraySlice<Prepared>, isLast: Bool) -> Chunk {
            var period = period
            if period != nil, let first = items.first?.item.timestamp, let last = items.last?.item.timestamp {
                period = first...last
            }
            return Chunk(stage: stage, period: period, items: items, isLast: isLast)
        }
        return (half(items[..<middle], isLast: false), half(items[middle...], isLast: isLast))
    }
}

extension OutboxWorker {
    /// Readings refused alone, one after the other and none taken, from which on the refusal is not about them.
    private static let patience = 4

    /// Posts a chunk; halves it where it is too large or holds something the server refuses.
    func post(_ chunk: Chunk, _ target: SyncTarget, of user: StoreUser, into tally: inout Tally) async throws {
        guard let first = chunk.items.first else { return }
        do {
            try await postOnce(chunk, target, of: user)
            tally.delivered += chunk.items.count
            tally.settled.formUnion(chunk.items.map(\.item.id))
        } catch let error as VitalError where error.isAboutSamples {
            guard chunk.items.count > 1 else {
                tally.suspects.append((first.item, error))
                // A server that refuses whatever it is sent has changed, or something stands before it: had it taken
                // even one, that would be known by now. Nothing is set aside because of it.
                if tally.delivered == 0, tally.suspects.count > Self.patience { throw error }
                return
            }
            if error.kind == .payloadTooLarge {
                batchLimits[target.resource] = chunk.items.count / 2
                logger.notice(
                    "posts are halved: too large for the server", metadata: ["readings": "\(chunk.items.count / 2)"])
            }
            let (one, other) = chunk.halves
            try await post(one, target, of: user, into: &tally)
            try await post(other, target, of: user, into: &tally)
        }
    }

    /// Sets aside what was refused alone, in the server's words.
    ///
    /// - Throws: the refusal itself where it is too large and nothing was taken: no reading is too large by itself, so
    ///   that is the server's limit.
    func settleSuspects(of target: SyncTarget, into tally: inout Tally) async throws {
        let suspects = tally.suspects
        tally.suspects = []
        if tally.delivered == 0, let large = suspects.first(where: { $0.error.kind == .payloadTooLarge }) {
            throw large.error
        }
        for (item, error) in suspects { try await setAside(item, error.serverSaid ?? error.summary, into: &tally) }
    }

    private func postOnce(_ chunk: Chunk, _ target: SyncTarget, of user: StoreUser) async throws {
        try await requireSource(target, of: user)
        do {
            try await send(chunk, target, of: user)
        } catch let error as VitalError where error.mayBeSourceRefusal {
            // The list that was believed may be minutes old: asked for anew it says what is held, and why.
            let decision = try await sources.decide(target.provider, for: user, fresh: true)
            if let hold = decision.hold { throw HeldBack(hold: hold, reason: decision.reason ?? error.serverSaid) }
            // The source is connected; then it is the samples that are refused.
            guard error.isSourceRefusal || error.isAboutResource else { throw error }
            do {
                try await send(chunk, target, of: user)
            } catch let error as VitalError where error.isAboutResource {
                throw try await noteUnknownResource(target, error)
            } catch let error as VitalError where error.isSourceRefusal {
                let held = try await sources.noteRefusal(
                    of: target.provider, for: user, reason: error.serverSaid ?? error.summary)
                throw HeldBack(hold: held.hold ?? .sourceError, reason: held.reason)
            }
        }
    }

    /// Notes that the server does not know the resource of a target: the provider's other kinds go on.
    ///
    /// The target is tried again after the longest wait, since a server may learn it.
    private func noteUnknownResource(_ target: SyncTarget, _ error: VitalError) async throws -> HeldBack {
        try await store.setUnknownToServer(
            true, user: target.user, resource: target.resource, provider: target.provider)
        resting[target] = clock.uptime() + options.backoff.longest
        return HeldBack(hold: .sourceError, reason: error.serverSaid ?? error.summary)
    }

    private func send(_ chunk: Chunk, _ target: SyncTarget, of user: StoreUser) async throws {
        let readings = chunk.items.map(\.item.reading.id)
        let userID = try await sources.serverUserID(of: user)
        CrashPoint.reach("post.before")
        if let data = Self.data(chunk.items, target.resource) {
            try await api.post(
                TimeSeriesPost(
                    provider: target.provider, timeZone: user.timeZone, stage: chunk.stage, period: chunk.period,
                    isFinalChunk: chunk.isLast, data: data), for: userID)
        } else {
            try await api.post(
                SummaryPost(
                    BodySummary(chunk.items, timeZone: user.timeZone), provider: target.provider,
                    timeZone: user.timeZone, stage: chunk.stage, period: chunk.period, isFinalChunk: chunk.isLast),
                for: userID)
        }
        CrashPoint.reach("post.after")
        hub.emit(.readings(readings, .posted))
        try await store.acknowledge(chunk.items.map(\.item.id), at: clock.now())
        hub.emit(.readings(readings, .acknowledged))
    }

    /// The samples of a time series; nil for kinds that belong into the body summary.
    private static func data(_ batch: ArraySlice<Prepared>, _ resource: ReadingKind) -> TimeSeriesData? {
        let quantities = batch.compactMap { if case .quantity(let sample) = $0.sample { sample } else { nil } }
        return switch resource {
        case .glucose: .glucose(quantities)
        case .spo2: .bloodOxygen(quantities)
        case .temperature: .temperature(quantities)
        case .heartRate: .heartRate(quantities)
        case .hrv: .heartRateVariability(quantities)
        case .bloodPressure:
            .bloodPressure(batch.compactMap { if case .bloodPressure(let sample) = $0.sample { sample } else { nil } })
        case .weight, .bodyComposition: nil
        }
    }
}

extension VitalError {
    /// Whether the server refuses the source rather than the samples: nobody documents with which status.
    var isSourceRefusal: Bool {
        switch kind {
        case .sourceNotConnected, .forbidden, .notFound, .conflict, .refused: true
        default: false
        }
    }

    /// Whether it may be the source: also a refusal that names no place in what was sent.
    var mayBeSourceRefusal: Bool {
        isSourceRefusal || isAboutResource || (kind == .validationFailed && !namesPlace)
    }

    /// Whether fewer samples, or others, may be taken.
    var isAboutSamples: Bool {
        kind == .payloadTooLarge || (kind == .validationFailed && !isAboutEnvelope && !isAboutResource)
    }
}
