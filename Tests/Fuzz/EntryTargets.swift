import HealthReadings

extension FuzzTarget {
    /// The frame of what a person entered by hand, or of its withdrawal.
    static let entry = FuzzTarget(
        "entry", longest: 1024,
        words: [
            #""format":1"#, #""person":""#, #""kind":""#, "glucose", "blood_pressure", #""values":["#, #"{"name":""#,
            #""value":""#, #""unit":""#, "mmol/L", "null", #""withdraws":""#, #""corrects":""#, "assumed_zone",
            #""left_out":"#,
            #""reason":""#,
        ],
        seeds: { _ in
            guard let zone = ZoneRules.named("Europe/Berlin") else { return [] }
            let texts = [
                EntryText(
                    kind: "glucose", value: "5.60", unit: "mmol/L", time: "2026-11-20T07:30", meal: "fasting",
                    note: "é \"n\""),
                EntryText(kind: "blood_pressure", value: "128/82", unit: "mmHg", pulse: "64"),
                EntryText(kind: "temperature", value: "36.8", unit: "C", time: "2026-11-20T07:30:00Z"),
            ]
            let now = Instant(seconds: 1_795_262_400)
            let entries = texts.compactMap { text in
                try? ManualEntry(text, person: "white_bear", zones: [(Instant(microseconds: .min), zone)], now: now)
            }
            let withdrawal = EntryWithdrawal(person: "white_bear", reading: ReadingID(high: 1, low: 2))
            let decision = try? FigureDecision(
                person: "white_bear", reading: ReadingID(high: 1, low: 2), isLeftOut: true, reason: "é", by: "page",
                at: now)
            let decisions = decision.map { [$0.frame(receivedAt: now).payload] } ?? []
            return decisions + entries.map { $0.frame(receivedAt: now).payload } + [
                withdrawal.frame(receivedAt: now).payload
            ]
        }
    ) { octets in
        let decoded = DecodedFrame(manualEntry: octets)
        expect(decoded == DecodedFrame(manualEntry: octets), "the same frame says two things")
        switch decoded {
        case .entry(let entry):
            expect(Array(entry.document.text.utf8) == octets, "an entry is not what its octets say")
            _ = (entry.id, entry.doubts(at: entry.instant), entry.record.document(context: entry.context).text)
        case .withdrawal(let withdrawal):
            expect(Array(withdrawal.document.text.utf8) == octets, "a withdrawal is not what its octets say")
        case .malformed: break
        default: expect(false, "an entry by hand is decoded as something else")
        }
        if case .figures(let decision) = DecodedFrame(figureDecision: octets) {
            expect(Array(decision.document.text.utf8) == octets, "a decision is not what its octets say")
        }
    }
}
