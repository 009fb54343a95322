import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Meters, adapters and stores that fail.
extension ScheduleTests {
    @Test("failures are tried again after 10 s, 30 s, 2 and 10 minutes; success begins anew")
    func backOff() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.glucose?.refuses = [.all: 8] }
        try await running {
            for (index, delay) in [10, 30, 120, 600, 600].enumerated() {
                try await eventually("it fails and waits \(delay) s") {
                    failures().count == index + 1 && bench.clock.sleeps == [.seconds(delay)]
                }
                bench.radio.appear(meter)
                try await settle()
                #expect(failures().count == index + 1, "it is left alone though it is heard")
                bench.clock.advance(by: .seconds(delay))
            }
            try await eventually("it fails once more") { bench.clock.sleeps == [.seconds(600)] }
            meter.change { $0.glucose?.refuses = [:] }
            bench.clock.advance(by: .seconds(600))
            try await eventually("it is read") { summaries().last?.isComplete == true }
            try await eventually("its time is kept") { bench.clock.sleeps == [.seconds(300)] }
            bench.radio.vanish(meter)
            bench.clock.advance(by: .seconds(60))
            meter.change { $0.glucose?.records += glucoseRecords(6...6) }
            meter.change { $0.glucose?.refuses = [.atLeast: 8, .all: 8] }
            bench.radio.appear(meter)
            try await eventually("it fails anew") { failures().count == 7 }
        }
        #expect(failures().map(\.delay) == [10, 30, 120, 600, 600, 600, 10].map { .seconds($0) })
        #expect(Set(failures().map(\.code)) == ["racp_procedure_not_completed"])
    }

    @Test("a meter that failed and has gone is read at once when it comes again")
    func failedAndGone() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.failsToConnect = true }
        try await running {
            try await eventually("it fails") { bench.clock.sleeps == [.seconds(10)] }
            bench.radio.vanish(meter)
            meter.change { $0.failsToConnect = false }
            bench.clock.advance(by: .seconds(10))
            try await eventually("it is listened for") { bench.radio.listens == 1 }
            bench.clock.advance(by: .seconds(10))
            try await eventually("it is given up") { bench.clock.sleeps.isEmpty }
            bench.radio.appear(meter)
            try await wasRead(times: 1)
        }
        #expect(failures().map(\.code) == ["timeout"])
    }

    @Test("promise 3: a transfer that was cut goes on as soon as the meter is heard, while it brings news")
    func cut() async throws {
        let meter = try await bench.meter(records: glucoseRecords(1...9), paired: .proven) { $0.cutAfter = 6 }
        try await running {
            // The second time its newest record is new; the third time nothing is, and it is left alone as after any
            // failure.
            try await eventually("it is cut again and again, and left alone") {
                bench.clock.sleeps == [.seconds(10)] && failures().count == 3
            }
            #expect(summaries().map(\.received) == [5, 3, 3])
            meter.change { $0.cutAfter = nil }
            bench.clock.advance(by: .seconds(10))
            try await wasRead(times: 4)
        }
        #expect(summaries().last?.isComplete == true && bench.store.readingCount == 9)
        #expect(failures().map(\.delay) == [nil, nil, .seconds(10)])
        #expect(Set(failures().map(\.code)) == ["transfer_interrupted"])
    }

    @Test("promise 10: an adapter that goes is told once, and everything goes on when it is back")
    func adapterLost() async throws {
        let meter = try await bench.meter(records: glucoseRecords(1...9), paired: .proven) { $0.isHeld = true }
        try await running {
            try await eventually("it is being read") { meter.log.events.contains(.start(0x2A52)) }
            bench.radio.setAdapter(.unusable(.lost))
            bench.radio.setAdapter(.unusable(.lost))
            bench.radio.setAdapter(.unusable(.noService))
            try await eventually("the transfer has ended") { summaries().count == 1 }
            meter.change { $0.isHeld = false }
            bench.clock.advance(by: .seconds(3600))
            try await settle()
            #expect(summaries().count == 1)
            bench.radio.setAdapter(Self.ready)
            bench.radio.setAdapter(.ready(Adapter(name: "hci0", address: nil, isDiscovering: true)))
            try await wasRead(times: 2)
        }
        #expect(summaries().last?.isComplete == true && bench.store.readingCount == 9)
        let adapters = told.events.compactMap { if case .adapter(let state) = $0 { state } else { nil } }
        #expect(adapters == [Self.ready, .unusable(.lost), .unusable(.noService), Self.ready])
    }

    @Test("promise 10: a watch that ends though the adapter is well is begun again")
    func watchFails() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isInReach = false }
        try await running {
            for pause in [1, 2, 5] {
                try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
                bench.radio.failWatching(RadioError.other(name: "org.bluez.Error.Failed", message: "x"))
                try await eventually("it pauses for \(pause) s") { bench.clock.sleeps == [.seconds(pause)] }
                bench.clock.advance(by: .seconds(pause))
            }
            try await eventually("it is watched for, on trial") { bench.clock.sleeps == [.seconds(10)] }
            bench.clock.advance(by: .seconds(10))
            bench.radio.appear(meter)
            try await wasRead(times: 1)
        }
    }

    @Test("promise 10: what keeps meters from being watched for is told where it lasts, and when it has passed")
    func watchFailureIsTold() async throws {
        let error = RadioError.other(name: "org.bluez.Error.Failed", message: "x")
        try await bench.meter(paired: .proven) { $0.isInReach = false }
        try await running {
            for pause in [1, 2] {
                try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
                bench.radio.failWatching(error)
                try await eventually("it pauses") { bench.clock.sleeps == [.seconds(pause)] }
                bench.clock.advance(by: .seconds(pause))
            }
            try await eventually("it is watched for, on trial") { bench.clock.sleeps == [.seconds(10)] }
            bench.clock.advance(by: .seconds(10))
            try await eventually("all is told") { told.events.count == 3 }
        }
        let adapters = told.events.compactMap { if case .adapter(let state) = $0 { state } else { nil } }
        #expect(adapters == [Self.ready, .unusable(error), Self.ready])
    }

    @Test("promise 1: a store that takes nothing has the device left alone, and tried again later")
    func fullStore() async throws {
        let cuff = try await bench.cuff(paired: .proven)
        bench.store.close()
        try await running {
            try await eventually("it is told") { failures().map(\.code) == ["not_stored"] }
        }
        #expect(cuff.log.events == [.connect, .disconnect] && cuff.cuffRecords.count == 2)
    }

    @Test("promise 8: a device that forgot us is told, and not pestered")
    func forgotten() async throws {
        try await bench.meter(paired: .proven) { $0.knowsBond = false }
        try await running {
            try await eventually("it is told") { bench.clock.sleeps == [.seconds(600)] }
            #expect(failures().map(\.code) == ["bond_lost_by_device"])
            #expect(failures().map(\.delay) == [.seconds(600)])
        }
        #expect(bench.store.pairing(.device(1)) == .paired)
    }
}
