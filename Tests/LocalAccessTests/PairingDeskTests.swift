import Foundation
import Testing

@testable import LocalAccess

@Suite("Pairing codes") struct PairingDeskTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private let start = ContinuousClock.now
    private let phone = PairingDesk.Guest(address: "192.0.2.1", network: "192.0.2.1")

    @Test("a code is good once")
    func once() throws {
        let desk = PairingDesk()
        let invitation = desk.invite(for: .owner, now: now, clock: start)
        #expect(invitation.code.count == 8 && invitation.expiresAt == now + 300)
        try desk.redeem(invitation.code, from: phone, clock: start)
        #expect(throws: PairingDesk.Refusal.notInvited) { try desk.redeem(invitation.code, from: phone, clock: start) }
    }

    @Test("a code is good for five minutes")
    func expires() throws {
        let desk = PairingDesk()
        let code = desk.invite(for: .owner, now: now, clock: start).code
        #expect(throws: PairingDesk.Refusal.expired) {
            try desk.redeem(code, from: phone, clock: start + .seconds(300))
        }
        #expect(throws: PairingDesk.Refusal.notInvited) { try desk.redeem(code, from: phone, clock: start) }
        let next = desk.invite(for: .owner, now: now, clock: start).code
        try desk.redeem(next, from: phone, clock: start + .seconds(299))
    }

    @Test("setting the machine's clock neither ends a code nor keeps one alive", arguments: [-1e9, 0, 1e9])
    func clockThatIsSet(seconds: TimeInterval) throws {
        let desk = PairingDesk()
        let code = desk.invite(for: .owner, now: now + seconds, clock: start).code
        try desk.redeem(code, from: phone, clock: start + .seconds(299))
        let late = desk.invite(for: .owner, now: now + seconds, clock: start).code
        #expect(throws: PairingDesk.Refusal.expired) {
            try desk.redeem(late, from: phone, clock: start + .seconds(300))
        }
    }

    @Test("five wrong tries are told so, and the right code is good from that address all the same")
    func bruteForce() throws {
        let desk = PairingDesk()
        let code = desk.invite(for: .owner, now: now, clock: start).code
        for attempt in 1...20 {
            #expect(throws: attempt < 5 ? PairingDesk.Refusal.wrongCode : .tooManyTries) {
                try desk.redeem("wrong\(attempt)", from: phone, clock: start)
            }
        }
        try desk.redeem(code, from: phone, clock: start)
    }

    @Test("every limit used up at once, the right code is good from the attacker's own address")
    func exhausted() throws {
        let desk = PairingDesk()
        let code = desk.invite(for: .owner, now: now, clock: start).code
        for host in 0..<12_000 {
            let address = "10.0.\(host / 256).\(host % 256)"
            #expect(throws: PairingDesk.Refusal.self) {
                try desk.redeem("guess", from: .init(address: address, network: address), clock: start)
            }
        }
        #expect(throws: PairingDesk.Refusal.busy) { try desk.redeem("guess", from: phone, clock: start) }
        try desk.redeem(code, from: .init(address: "10.0.0.1", network: "10.0.0.1"), clock: start)
    }

    @Test("a code is too long to be guessed, at 100,000 guesses a second for all of its life")
    func entropy() {
        let codes = (0..<PairingDesk.length).reduce(1.0) { all, _ in all * Double(PairingDesk.alphabet.count) }
        #expect(100_000 * PairingDesk.lifetime / codes < 1 / 3_000_000)
    }

    @Test("a stranger's guesses do not void the owner's code")
    func stranger() throws {
        let desk = PairingDesk()
        let code = desk.invite(for: .owner, now: now, clock: start).code
        let stranger = PairingDesk.Guest(address: "192.0.2.2", network: "192.0.2.2")
        for _ in 0..<1000 {
            #expect(throws: PairingDesk.Refusal.self) { try desk.redeem("guess", from: stranger, clock: start) }
        }
        try desk.redeem(code, from: phone, clock: start + .seconds(1))
    }

    @Test("a network that chooses among its addresses has a hundred guesses, then one a second")
    func network() throws {
        let desk = PairingDesk()
        let code = desk.invite(for: .owner, now: now, clock: start).code
        func guest(_ host: Int) -> PairingDesk.Guest {
            PairingDesk.Guest(address: "2001:db8::\(host)", network: "2001:db8::/64")
        }
        for host in 0..<100 {
            #expect(throws: PairingDesk.Refusal.wrongCode) { try desk.redeem("guess", from: guest(host), clock: start) }
        }
        #expect(throws: PairingDesk.Refusal.busy) { try desk.redeem("guess", from: guest(200), clock: start) }
        #expect(throws: PairingDesk.Refusal.wrongCode) {
            try desk.redeem("guess", from: guest(201), clock: start + .seconds(1))
        }
        #expect(throws: PairingDesk.Refusal.busy) {
            try desk.redeem("guess", from: guest(202), clock: start + .seconds(1.5))
        }
        // Nobody who has the code is kept out, in that network or elsewhere.
        try desk.redeem(code, from: guest(202), clock: start + .seconds(1.5))
    }

    @Test("however many addresses guess, no more than 13,000 guesses are counted")
    func ceiling() {
        let desk = PairingDesk()
        _ = desk.invite(for: .owner, now: now, clock: start)
        var looked = 0
        for second in 0..<299 {
            for host in 0..<200 {
                let address = "10.\(second).\(host).1"
                do {
                    try desk.redeem(
                        "guess", from: .init(address: address, network: address),
                        clock: start + .seconds(Double(second) + Double(host) / 200))
                } catch  where error == .wrongCode {
                    looked += 1
                } catch {
                    #expect(error == .busy)
                }
            }
        }
        #expect((10_000...13_000).contains(looked), "\(looked)")
        #expect(PairingDesk.alphabet.count == 56 && PairingDesk.length == 8)
    }

    @Test("a new code ends the one before", arguments: ["", "x", String(repeating: "a", count: 100_000), "äöü"])
    func replaced(_ stray: String) throws {
        let desk = PairingDesk()
        let first = desk.invite(for: .owner, now: now, clock: start).code
        let second = desk.invite(for: .owner, now: now, clock: start).code
        #expect(first != second)
        #expect(throws: PairingDesk.Refusal.wrongCode) { try desk.redeem(first, from: phone, clock: start) }
        #expect(throws: PairingDesk.Refusal.wrongCode) { try desk.redeem(stray, from: phone, clock: start) }
        try desk.redeem(second, from: phone, clock: start)
    }

    @Test("codes have no characters that look like others, and differ")
    func characters() {
        let desk = PairingDesk()
        let codes = (0..<500).map { _ in desk.invite(for: .owner, now: now, clock: start).code }
        #expect(Set(codes).count == 500)
        #expect(!codes.joined().contains { "IOlo01".contains($0) })
    }
}

@Suite("The rate of requests") struct RequestRateTests {
    @Test("sixty in sixty seconds, then a wait; each caller by itself")
    func window() {
        let rate = RequestRate()
        let start = ContinuousClock.now
        for second in 0..<60 { #expect(rate.admit("a", now: start + .milliseconds(second)) == nil) }
        let wait = rate.admit("a", now: start + .seconds(10))
        #expect(wait == .seconds(50))
        #expect(rate.admit("b", now: start + .seconds(10)) == nil)
        #expect(rate.admit("a", now: start + .seconds(61)) == nil)
    }

    @Test("a flood of callers does not make it grow, nor forget who is over the limit")
    func flood() {
        let rate = RequestRate(limit: 2, capacity: 16)
        let start = ContinuousClock.now
        for _ in 0..<2 { #expect(rate.admit("loud", now: start) == nil) }
        for number in 0..<10_000 { _ = rate.admit("caller \(number)", now: start) }
        #expect(rate.admit("loud", now: start) != nil)
    }
}
