import EmulatedPhone
import Foundation
import HealthReadings
import Testing

@testable import HealthSyncClient

@Suite("Fetching every sample", .timeLimit(.minutes(3))) struct FetchTests {
    @Test("pages give everything once, newest first, however they are cut", arguments: [1, 2, 3, 7, 50, 10_000])
    func pages(size: Int) async throws {
        let samples =
            Bench.heartRates(50)
            + Bench.heartRates(3, every: 0).map { sample in
                var sample = sample
                sample.type = "steps"
                sample.unit = "count"
                return sample
            }
        let bench = try await Bench(samples, pageSize: size) { $0.rateWindow = .milliseconds(1) }
        bench.phone.change { $0.rate = 100_000 }
        let (received, result) = await bench.fetch(["heartRate", "steps"])
        #expect(Set(received.map(\.id)) == Set(samples.map(\.id.uuidString)) && received.count == samples.count)
        #expect(received.map(\.start) == received.map(\.start).sorted(by: >))
        #expect(try result.get().samples == 53 && result.get().falseEnds == 0)
        // No request counts from the newest sample on, but for what lies in one second.
        #expect(bench.phone.requests.allSatisfy { $0.members["offset"] as? Int ?? 0 <= 3 + size })
        await bench.phone.stop()
    }

    @Test("more samples of one second than a page holds, with fractions that the answer doesn't show")
    func oneSecond() async throws {
        let samples = (0..<25).map { PhoneSample("heartRate", 60, "count/min", at: Bench.noon + Double($0) / 30) }
        let bench = try await Bench(samples + Bench.heartRates(5, every: 3600), pageSize: 4)
        let (received, result) = await bench.fetch(["heartRate"])
        #expect(received.count == 30 && Set(received.map(\.id)).count == 30)
        #expect(result.kind == nil)
        await bench.phone.stop()
    }

    @Test("the ends of the range are included")
    func ends() async throws {
        let noon = Bench.noon
        let samples = [-1.0, 0, 0.9, 59.5, 60, 60.9, 61, 62].map {
            PhoneSample("heartRate", 60, "count/min", at: noon + $0)
        }
        let bench = try await Bench(samples)
        let (received, result) = await bench.fetch(
            ["heartRate"], in: Bench.instant(noon)...Bench.instant(noon + 60))
        #expect(result.kind == nil)
        #expect(Set(received.map(\.id)) == Set(samples[1...5].map(\.id.uuidString)))
        await bench.phone.stop()
    }

    @Test("sleep stages come whole, although the app filters them after it has counted a page")
    func sleepStages() async throws {
        let samples = (0..<60).map { place in
            PhoneSample.sleep(
                [3, 4, 5][place % 3], from: Bench.noon - Double(place) * 600, to: Bench.noon - Double(place) * 600 + 600
            )
        }
        let bench = try await Bench(samples, pageSize: 12)
        let (received, result) = await bench.fetch(["sleepREM"])
        #expect(received.count == 20 && received.allSatisfy { $0.value == ExactDecimal(significand: 5) })
        #expect(try result.get().falseEnds > 0)
        let (all, _) = await bench.fetch(["sleepAnalysis", "sleepREM"])
        #expect(all.count == 80)
        #expect(all.first?.metadata("sleepStage") == "core")
        await bench.phone.stop()
    }

    @Test("a stage is found behind more samples of other stages than a page holds")
    func rareStage() async throws {
        let others = (1...120).map { place in
            PhoneSample.sleep(
                3, from: Bench.noon - Double(place) * 600, to: Bench.noon - Double(place) * 600 + 600)
        }
        let rare = [0.0, 80_000].map { PhoneSample.sleep(5, from: Bench.noon - $0, to: Bench.noon - $0 + 600) }
        let bench = try await Bench(others + rare, pageSize: 100)
        let (received, result) = await bench.fetch(["sleepREM"])
        #expect(received.map(\.id) == rare.map(\.id.uuidString) && result.kind == nil)
        await bench.phone.stop()
    }

    @Test("a hasMore that lies: too early an end is found out, no end is an error")
    func lies() async throws {
        let samples = Bench.heartRates(20)
        let bench = try await Bench(samples, pageSize: 6)
        bench.phone.change { $0.fault = { _, reply in reply.replace(#""hasMore":true"#, #""hasMore":false"#) } }
        let (received, result) = await bench.fetch(["heartRate"])
        #expect(try received.count == 20 && result.get().falseEnds > 0)
        bench.phone.change { $0.fault = { _, reply in reply.replace(#""hasMore":false"#, #""hasMore":true"#) } }
        let (others, failure) = await bench.fetch(["heartRate"])
        #expect(others.count == 20 && failure.kind == .pagesDoNotAdvance)
        await bench.phone.stop()
    }

    @Test("a page that comes again, runs backwards, holds what was not asked for or a wrong count is an error")
    func badPages() async throws {
        let samples = Bench.heartRates(20)
        let bench = try await Bench(samples, pageSize: 6)
        let repeated = bench.phone.page(of: Array(samples.prefix(6)), hasMore: true)
        bench.phone.change { $0.fault = { _, reply in reply.body = repeated } }
        #expect(await bench.fetch(["heartRate"]).result.kind == .sampleOutOfRange)
        let backwards = bench.phone.page(of: samples.prefix(6).reversed(), hasMore: true)
        bench.phone.change { $0.fault = { _, reply in reply.body = backwards } }
        let (none, result) = await bench.fetch(["heartRate"])
        #expect(none.isEmpty && result.kind == .pagesOutOfOrder)
        let early = bench.phone.page(
            of: [PhoneSample("heartRate", 60, "count/min", at: Bench.noon - 900_000)], hasMore: false)
        bench.phone.change { $0.fault = { _, reply in reply.body = early } }
        #expect(await bench.fetch(["heartRate"]).result.kind == .sampleOutOfRange)
        bench.phone.change { $0.fault = { _, reply in reply.replace(#""returnedCount":6"#, #""returnedCount":7"#) } }
        #expect(await bench.fetch(["heartRate"]).result.kind == .unexpectedAnswer)
        await bench.phone.stop()
    }

    @Test("a sample without a number, an id or a time is an error that names its place")
    func badSamples() async throws {
        let bench = try await Bench(Bench.heartRates(2))
        for (old, new, place) in [
            (#""value":60"#, #""value":"sixty""#, "samples[0].value"),
            (#""unit":"count\/min""#, #""unit":null"#, "samples[0].unit"),
            (#""endDate":""#, #""endDate":"x"#, "samples[0].endDate"),
        ] {
            bench.phone.change { $0.fault = { _, reply in reply.replace(old, new) } }
            guard case .failure(let error as HealthSyncError) = await bench.fetch(["heartRate"]).result else {
                Issue.record("no error for \(place)")
                continue
            }
            #expect(error.kind == .unexpectedAnswer && error.detail?.hasPrefix(place) == true, "\(error)")
        }
        await bench.phone.stop()
    }

    @Test(
        "a connection that breaks in the middle of a page is tried again with a smaller page; nothing is lost or doubled"
    )
    func cutPages() async throws {
        let samples = Bench.heartRates(400)
        let bench = try await Bench(samples, pageSize: 200) { $0.retries = 2 }
        bench.phone.change { $0.fault = { request, reply in if request.number % 3 == 1 { reply.breaksAfter = 700 } } }
        let (received, result) = await bench.fetch(["heartRate"])
        #expect(received.count == 400 && Set(received.map(\.id)).count == 400)
        #expect(try result.get().retries > 0)
        bench.phone.change { $0.fault = { _, reply in reply.breaksAfter = 700 } }
        #expect(await bench.fetch(["heartRate"]).result.kind == .connectionLost)
        await bench.phone.stop()
    }

    @Test("samples that come in between two pages move nothing")
    func moving() async throws {
        let samples = Bench.heartRates(30)
        let bench = try await Bench(samples, pageSize: 10)
        let phone = bench.phone
        phone.change { state in
            state.fault = { _, _ in
                Task {
                    phone.change { $0.samples.append(PhoneSample("heartRate", 61, "count/min", at: Bench.noon + 60)) }
                }
            }
        }
        let (received, _) = await bench.fetch(["heartRate"])
        #expect(Set(samples.map(\.id.uuidString)).isSubset(of: Set(received.map(\.id))))
        #expect(Set(received.map(\.id)).count == received.count)
        await bench.phone.stop()
    }

    @Test("the phone's rate limit is waited for, as long as it says, and not for ever")
    func rateLimit() async throws {
        let bench = try await Bench(Bench.heartRates(4))
        bench.phone.change { state in
            state.fault = { request, reply in
                if request.number == 1 { reply = .refusal(429, "Too Many Requests", "Rate limit exceeded") }
            }
        }
        let (received, result) = await bench.fetch(["heartRate"])
        #expect(received.count == 4 && result.kind == nil)
        bench.phone.change { state in
            state.fault = { _, reply in
                reply = .refusal(429, "Too Many Requests", "Rate limit exceeded")
                reply.headers["Retry-After"] = "3600"
            }
        }
        guard case .failure(let error as HealthSyncError) = await bench.fetch(["heartRate"]).result else {
            Issue.record("it waited")
            return
        }
        #expect(error.kind == .rateLimitExceeded && error.retryAfter == .seconds(3600))
        await bench.phone.stop()
    }

    @Test("a locked phone, a revoked token, a type that isn't shared, and the phone's own failure")
    func refusals() async throws {
        let bench = try await Bench(Bench.heartRates(4))
        bench.phone.change { $0.isLocked = true }
        #expect(await bench.fetch(["heartRate"]).result.kind == .locked)
        bench.phone.change { $0.isLocked = false }
        guard case .failure(let error as HealthSyncError) = await bench.fetch(["heartRate", "weight"]).result else {
            Issue.record("no error")
            return
        }
        #expect(error.kind == .typeNotEnabled)
        bench.phone.change { $0.fault = { _, reply in reply.replace(#""status":"ok""#, #""status":"error""#) } }
        #expect(await bench.fetch(["heartRate"]).result.kind == .phoneFailed)
        bench.phone.change { $0.fault = { _, reply in reply.replace(#""status":"ok""#, #""status":"noPermission""#) } }
        #expect(await bench.fetch(["heartRate"]).result.kind == .noPermission)
        bench.phone.change {
            $0.fault = nil
            $0.tokens = []
        }
        #expect(await bench.fetch(["heartRate"]).result.kind == .tokenExpired)
        await bench.phone.stop()
    }

    @Test("a type that this gateway doesn't know is kept and counted; digits and unknown members stay as they came")
    func unknown() async throws {
        let bench = try await Bench(
            [PhoneSample("bloodOxygen", 0.97, "%", at: Bench.noon)], enabled: ["bloodOxygen"])
        bench.phone.change { state in
            state.fault = { _, reply in
                reply.replace(#""type":"bloodOxygen""#, #""type":"moonPhase","more":{"a":[1.50]}"#)
            }
        }
        let (received, result) = await bench.fetch(["bloodOxygen"])
        let sample = try #require(received.first)
        #expect(sample.type == "moonPhase" && sample.value == ExactDecimal(significand: 97, exponent: -2))
        #expect(try result.get().unknownTypes == ["moonPhase": 1])
        #expect(String(decoding: sample.json, as: UTF8.self).contains(#""more":{"a":[1.50]}"#))
        #expect(HealthSyncSample(json: sample.json) == sample)
        await bench.phone.stop()
    }
}

extension PhoneReply {
    mutating func replace(_ old: String, _ new: String) {
        body = Data(String(decoding: body, as: UTF8.self).replacing(old, with: new).utf8)
    }
}

extension EmulatedPhone {
    /// The body of a page with these samples in this order.
    func page(of samples: [PhoneSample], hasMore: Bool) -> Data {
        let formatter = ISO8601DateFormatter()
        let texts = samples.map { sample in
            let (start, end) = (formatter.string(from: sample.start), formatter.string(from: sample.end))
            return """
                {"id":"\(sample.id)","type":"\(sample.type)","value":\(sample.value),"unit":"\(sample.unit)",\
                "startDate":"\(start)","endDate":"\(end)","sourceName":"x"}
                """
        }
        return Data(
            #"{"status":"ok","samples":[\#(texts.joined(separator: ","))],"hasMore":\#(hasMore),"returnedCount":\#(samples.count)}"#
                .utf8)
    }
}
