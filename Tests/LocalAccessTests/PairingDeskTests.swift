import Foundation
import Testing

@testable import LocalAccess

@Suite("Pairing codes") struct PairingDeskTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("a code is good once")
    func once() throws {
        let desk = PairingDesk()
        let invitation = desk.invite(now: now)
        #expect(invitation.code.count == 8 && invitation.expiresAt == now + 300)
        try desk.redeem(invitation.code, now: now)
        #expect(throws: PairingDesk.Refusal.notInvited) { try desk.redeem(invitation.code, now: now) }
    }

    @Test("a code is good for five minutes")
    func expires() throws {
        let desk = PairingDesk()
        let code = desk.invite(now: now).code
        #expect(throws: PairingDesk.Refusal.expired) { try desk.redeem(code, now: now + 300) }
        #expect(throws: PairingDesk.Refusal.notInvited) { try desk.redeem(code, now: now) }
        let next = desk.invite(now: now).code
        try desk.redeem(next, now: now + 299)
    }

    @Test("after five wrong tries the right code is refused too")
    func bruteForce() {
        let desk = PairingDesk()
        let code = desk.invite(now: now).code
        for attempt in 1...5 {
            #expect(throws: attempt < 5 ? PairingDesk.Refusal.wrongCode : .tooManyTries) {
                try desk.redeem("wrong\(attempt)", now: now)
            }
        }
        #expect(throws: PairingDesk.Refusal.tooManyTries) { try desk.redeem(code, now: now) }
    }

    @Test("a new code ends the one before", arguments: ["", "x", String(repeating: "a", count: 100_000), "äöü"])
    func replaced(_ stray: String) throws {
        let desk = PairingDesk()
        let first = desk.invite(now: now).code
        let second = desk.invite(now: now).code
        #expect(first != second)
        #expect(throws: PairingDesk.Refusal.wrongCode) { try desk.redeem(first, now: now) }
        #expect(throws: PairingDesk.Refusal.wrongCode) { try desk.redeem(stray, now: now) }
        try desk.redeem(second, now: now)
    }

    @Test("codes have no characters that look like others, and differ")
    func characters() {
        let desk = PairingDesk()
        let codes = (0..<500).map { _ in desk.invite(now: now).code }
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
