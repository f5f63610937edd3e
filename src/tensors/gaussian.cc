// SPDX-License-Identifier: Apache-2.0
#include "tensors/gaussian.h"

#include <cmath>

namespace cinch::tensors {
namespace {

constexpr double kLn2 = 0.693147180559945309417;

/// The natural logarithm of a value from 1 to 2, by the series of the inverse hyperbolic tangent.
double LogOfMantissa(double value) {
  const double ratio = (value - 1) / (value + 1);
  const double square = ratio * ratio;
  double sum = 0;
  for (int power = 41; power >= 1; power -= 2) {
    sum = sum * square + 1.0 / power;
  }
  return 2 * ratio * sum;
}

template <size_t kCount>
double Polynomial(const std::array<double, kCount>& coefficients, double value) {
  double sum = 0;
  for (size_t i = kCount; i > 0; --i) {
    sum = sum * value + coefficients[i - 1];
  }
  return sum;
}

/// The value that a standard normal exceeds with `probability` <= 1/2, whose natural logarithm is
/// `log_probability`. M. J. Wichura, "Algorithm AS 241: The Percentage Points of the Normal
/// Distribution", Applied Statistics 37 (1988).
double UpperQuantile(double probability, double log_probability) {
  const double distance = 0.5 - probability;
  if (distance <= 0.425) {
    constexpr std::array<double, 8> kA = {3.3871328727963666080e+0, 1.3314166789178437745e+2,
                                          1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                          4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                          3.3430575583588128105e+4, 2.5090809287301226727e+3};
    constexpr std::array<double, 8> kB = {1.0,
                                          4.2313330701600911252e+1,
                                          6.8718700749205790830e+2,
                                          5.3941960214247511077e+3,
                                          2.1213794301586595867e+4,
                                          3.9307895800092710610e+4,
                                          2.8729085735721942674e+4,
                                          5.2264952788528545610e+3};
    const double argument = 0.180625 - distance * distance;
    return distance * Polynomial(kA, argument) / Polynomial(kB, argument);
  }
  const double root = std::sqrt(-log_probability);
  if (root <= 5) {
    constexpr std::array<double, 8> kC = {1.42343711074968357734e+0, 4.63033784615654529590e+0,
                                          5.76949722146069140550e+0, 3.64784832476320460504e+0,
                                          1.27045825245236838258e+0, 2.41780725177450611770e-1,
                                          2.27238449892691845833e-2, 7.74545014278341407640e-4};
    constexpr std::array<double, 8> kD = {1.0,
                                          2.05319162663775882187e+0,
                                          1.67638483018380384940e+0,
                                          6.89767334985100004550e-1,
                                          1.48103976427480074590e-1,
                                          1.51986665636164571966e-2,
                                          5.47593808499534494600e-4,
                                          1.05075007164441684324e-9};
    return Polynomial(kC, root - 1.6) / Polynomial(kD, root - 1.6);
  }
  constexpr std::array<double, 8> kE = {6.65790464350110377720e+0, 5.46378491116411436990e+0,
                                        1.78482653991729133580e+0, 2.96560571828504891230e-1,
                                        2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                        2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr std::array<double, 8> kF = {1.0,
                                        5.99832206555887937690e-1,
                                        1.36929880922735805310e-1,
                                        1.48753612908506148525e-2,
                                        7.86869131145613259100e-4,
                                        1.84631831751005468180e-5,
                                        1.42151175831644588870e-7,
                                        2.04426310338993978564e-15};
  return Polynomial(kE, root - 5) / Polynomial(kF, root - 5);
}

}  // namespace

GaussianTable::GaussianTable() {
  for (size_t interval = 0; interval < knots_.size(); ++interval) {
    const int exponent = -static_cast<int>(interval) - 1;
    for (size_t part = 0; part <= kParts; ++part) {
      const double mantissa = 1 + static_cast<double>(part) / static_cast<double>(kParts);
      const double probability = std::ldexp(mantissa, exponent);
      // Words have 63 bits of probability, so interval 0 (above 1/2) is never asked for.
      knots_[interval][part] =
          probability > 0.5 ? 0
                            : UpperQuantile(probability, exponent * kLn2 + LogOfMantissa(mantissa));
    }
  }
}

const GaussianTable& GaussianTable::Get() {
  static const GaussianTable table;
  return table;
}

double PortableExp2(double exponent) {
  const double whole = std::floor(exponent);
  const double argument = (exponent - whole) * kLn2;
  double sum = 1;
  for (int term = 20; term >= 1; --term) {
    sum = 1 + sum * argument / term;
  }
  return std::ldexp(sum, static_cast<int>(whole));
}

}  // namespace cinch::tensors
